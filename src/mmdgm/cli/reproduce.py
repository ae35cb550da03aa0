"""mmdgm reproduce."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmdgm.cli.common import Compile, Json, app, asked_to_stop, print_json, say
from mmdgm.errors import InputError, WorkError, unknown

if TYPE_CHECKING:
    from mmdgm.experiments.reproduce import Reproduction

_ALL = "all"


@app.command()
def reproduce(
    target: Annotated[
        str,
        typer.Argument(
            help="table1 ... table5, samples-mnist, samples-svhn, tsne, imputation-mnist, imputation-svhn, or all."
        ),
    ],
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="Only this model of the table, as its column of recipes names it; repeatable."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="All of it on 300 rows and for one epoch, to see that it works.")
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Only say what there is to do, and how long it takes.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="How many, from 0 on.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="For results, tables, figures (default: experiments; --quick: runs/quick).")
    ] = None,
    runs: Annotated[
        Path | None, typer.Option(help="Where runs are, finished ones to be reused (default: runs; --quick: OUT/runs).")
    ] = None,
    compile: Compile = None,
    as_json: Json = False,
) -> None:
    """Reproduce a table or figure of the paper: train, evaluate, write JSON, the table and the picture."""
    from mmdgm.experiments.jobs import QUICK, TARGETS, WHOLE

    if target != _ALL and target not in TARGETS:
        raise unknown("target", target, (*TARGETS, _ALL))
    from mmdgm.experiments.reproduce import Reproduction
    from mmdgm.progress import ProgressBar
    from mmdgm.runtime import keep_freed_memory

    targets = tuple(TARGETS) if target == _ALL else (target,)
    if model and target == _ALL:
        raise InputError("--model names models of one target; name the target instead of 'all'.")
    out = out or Path("runs/quick" if quick else "experiments")
    runs = runs or (out / "runs" if quick else Path("runs"))
    _check_folders(out, runs)
    keep_freed_memory()
    size = QUICK if quick else WHOLE
    work = Reproduction(
        out, runs, tuple(range(seeds)), size, say, ProgressBar, asked_to_stop(), compile, tuple(model or ())
    )
    if plan:
        plans = [work.plan(name)._asdict() for name in targets]
        if as_json:
            print_json({"plans": plans})
        return
    done, failed = _do(work, targets)
    if as_json:
        print_json({"done": done, "failed": failed})
    else:
        print("\n".join(file for one in done for file in one["files"]))
    if failed:
        raise WorkError(f"not done: {', '.join(failed)}; the reasons stand above")


def _check_folders(out: Path, runs: Path) -> None:
    for option, folder in (("--out", out), ("--runs", runs)):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{option} must be a folder; '{folder}' is a file.")


def _do(work: "Reproduction", targets: tuple[str, ...]) -> tuple[list[dict[str, Any]], list[str]]:
    """What came of each target; of several, those that cannot be done are named at the end."""
    from mmdgm.experiments.reproduce import Interrupted

    done, failed = [], []
    for name in targets:
        try:
            done.append(work.target(name))
        except Interrupted:
            say("interrupted; the same command goes on from here")
            raise typer.Exit(130) from None
        except (InputError, WorkError) as error:
            if len(targets) == 1:
                raise
            say(f"{name} could not be done: {error}")
            failed.append(name)
    return done, failed

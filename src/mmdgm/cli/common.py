"""What the commands share: the program, its options, and how it speaks."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from mmdgm import __version__
from mmdgm.errors import InputError

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
Steps = Annotated[int | None, typer.Option(help="Steps of a chain, or draws (default: 100; direct: 25).")]
BurnIn = Annotated[int | None, typer.Option(help="First steps of a chain that count for nothing (default: a fifth).")]
Chains = Annotated[int | None, typer.Option(help="Chains for each row (default: 2; direct: 1).")]
Precision = Annotated[str | None, typer.Option(help="bf16 or float32 (default: bf16 if it is fast).")]
Compile = Annotated[bool | None, typer.Option(help="Compile the step (default: if it repays).")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps, ... (default: the best there is).")]


def say(message: str) -> None:
    """A message for the person, on standard error."""
    print(message, file=sys.stderr, flush=True)


def print_json(content: Any) -> None:
    """One JSON object, for a program, on standard output."""
    from mmdgm.storage import to_bytes

    print(to_bytes(content).decode(), end="")


def asked_to_stop() -> Callable[[], bool]:
    """Whether an interrupt has come since; the first one lets the step at hand end, the second stops at once."""
    stopped: list[int] = []

    def stop(number: int, _frame: object) -> None:
        stopped.append(number)
        if len(stopped) == 1:
            say("stopping after this step; once more to stop at once")
        elif len(stopped) == 2:  # with what the last checkpoint holds
            raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    return lambda: bool(stopped)


def check_png(out: Path) -> None:
    """Whether a picture is asked for under a name that says so."""
    if out.suffix.lower() != ".png":
        raise InputError(f"--out must end in .png; got '{out}'.")


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(__version__)
        raise typer.Exit

"""mmdgm bench: speed on this machine."""

from typing import Annotated, Any

import typer

from mmdgm.cli.common import Device, Json, bench_app, print_json, say


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

    _print_figures(bench_training(recipe, batch_size, seconds, device, say), as_json)


@bench_app.command("impute")
def bench_impute(
    recipe: Annotated[str, typer.Option(help="Whose network.")] = "mmva-mnist-paper",
    rows: Annotated[int, typer.Option(min=1, help="How many rows, half of each missing.")] = 10_000,
    steps: Annotated[int, typer.Option(min=5, help="Of one chain.")] = 100,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Speed of filling in: against this machine's matrix rate, and against a plain chain, measured in turns."""
    from mmdgm.bench_imputation import bench_imputation

    _print_figures(bench_imputation(recipe, rows, steps, device, say), as_json)


def _print_figures(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for key, value in found.items():
        print(f"{key:46} {value:,.3g}" if isinstance(value, float) else f"{key:46} {value}")

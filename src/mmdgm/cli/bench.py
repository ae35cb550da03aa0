"""mmdgm bench: speed on this machine."""

from pathlib import Path
from typing import Annotated, Any

import typer

from mmdgm.cli.common import Device, Json, bench_app, print_json, say
from mmdgm.storage import to_bytes, write_atomically


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


@bench_app.command("tables")
def bench_tables(
    table: Annotated[list[str] | None, typer.Option(help="Only these tables (may be given again).")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Splits, each with its own holes.")] = 5,
    threads: Annotated[int, typer.Option(min=1, help="For our networks.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Write the figures into this JSON file, too.")] = None,
) -> None:
    """Accuracy and imputation error of the scikit-learn estimator on real tables with holes, beside other methods."""
    from mmdgm.bench_tables import bench_tables
    from mmdgm.data.tables import TABLES

    _keep(bench_tables(tuple(table or TABLES), seeds, threads, say), out)


@bench_app.command("outliers")
def bench_outliers(
    rows: Annotated[int, typer.Option(min=10, help="Test images of each kind.")] = 2000,
    training_rows: Annotated[int, typer.Option(min=100, help="Training images.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="Of the estimator.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the figures into this JSON file, too.")] = None,
) -> None:
    """AUROC of outlier scores: MNIST against Fashion-MNIST both ways, and an all-black image."""
    from mmdgm.bench_outliers import bench_outliers

    _keep(bench_outliers(rows, training_rows, seed, say), out)


def _keep(found: dict[str, Any], out: Path | None) -> None:
    """Print figures as JSON, and write them into a file if one is named."""
    if out is not None:
        write_atomically(out, to_bytes(found))
    print_json(found)


def _print_figures(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for key, value in found.items():
        print(f"{key:46} {value:,.3g}" if isinstance(value, float) else f"{key:46} {value}")

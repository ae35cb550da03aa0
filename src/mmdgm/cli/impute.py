"""mmdgm impute."""

from pathlib import Path
from typing import Annotated, Any

import typer

from mmdgm.cli.common import (
    MOST,
    BurnIn,
    Chains,
    Compile,
    Data,
    Device,
    Json,
    Label,
    Method,
    Pattern,
    Precision,
    Steps,
    app,
    print_json,
)
from mmdgm.cli.holes import imputer, measure_holes, part_named, print_mixing
from mmdgm.errors import InputError


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
    compare: Annotated[
        int, typer.Option(min=0, help="With --pattern: let scikit-learn's imputers fill this many rows, too.")
    ] = 0,
    copies: Annotated[int, typer.Option(help="Completed copies beside --out, for multiple imputation.")] = 0,
    method: Method = None,
    steps: Steps = None,
    burn_in: BurnIn = None,
    chains: Chains = None,
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
    how = {**imputer(method, steps, burn_in, chains), "copies": copies}
    runtime = (device, precision, compile)
    if pattern is not None:
        if mask is not None or copies:
            raise InputError("--mask and --copies go with --input; for a mask of known rows use --pattern mask:FILE.")
        measure_holes(run, pattern, part_named(part), data, label, seed, out, run, as_json, runtime, how, compare)
        return
    assert source is not None
    if out is None:
        raise InputError("--input needs --out, the file to write.")
    if part is not None or data is not None or compare:
        raise InputError("--split, --data and --compare go with --pattern; --input fills every row of its file.")
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
    missing = found.missing
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
        print_json(told)
        return
    print(f"{told['filled']:,} values filled in, in {told['rows']:,} rows")
    print_mixing(told["r_hat_median"], told["draws_median"], told["not_mixed_percent"])
    for file in files:
        print(f"  {'file':20} {file}")

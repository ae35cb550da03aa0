"""Cutting holes into known rows and measuring: what `evaluate --pattern` and `impute --pattern` share."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmdgm.cli.common import print_json, say

if TYPE_CHECKING:
    from mmdgm.data.splits import SplitName


def part_named(name: str | None) -> "SplitName | None":
    """A part of the data by its name."""
    from mmdgm.errors import unknown

    parts: dict[str, SplitName] = {"train": "train", "valid": "valid", "test": "test"}
    if name is not None and name not in parts:
        raise unknown("--split", name, parts)
    return None if name is None else parts[name]


def imputer(method: str | None, steps: int | None, burn_in: int | None, chains: int | None) -> dict[str, Any]:
    """Settings of the `Imputer` that were given; it knows what suits the model for the others."""
    given = {"method": method, "steps": steps, "burn_in": burn_in, "chains": chains}
    return {name: value for name, value in given.items() if value is not None}


def measure_holes(
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
    compared: int = 0,
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
            run, parsed, part, data, label, seed, pictures, compared,
            lambda operations: choose_runtime(*runtime, operations), bar.rows, **how,
        )  # fmt: skip
    if out is not None:
        write_atomically(out, to_bytes(found))
    if as_json:
        print_json(found)
    else:
        _print_holes(found)


def _print_holes(found: dict[str, Any]) -> None:
    protocol = found["protocol"]
    print(f"{found['recipe']}, seed {found['seed']}, {found['examples']:,} rows ({protocol['split']})")
    print(f"  {'holes':20} {found['pattern']}, {found['missing_percent']:.1f} % missing")
    print(f"  {'method':20} {protocol['method']}, {protocol['chains']} x {protocol['steps']} steps")
    for title, unit, others in (("mean squared error", "", found["mse_by"]), ("error", " %", found["error_by"])):
        known = {name: value for name, value in others.items() if value is not None}
        for i, (name, value) in enumerate(known.items()):
            text = f"{value:.4f}" if unit == "" else f"{value:.2f}"
            print(f"  {'' if i else title:20} {text}{unit} ({name.replace('_', ' ')})")
    print_mixing(found["r_hat_median"], found["draws_median"], found["not_mixed_percent"])
    for other in found.get("compared", ()):
        learned = (
            f", learned from {other['training_rows']:,} in {other['seconds']:.1f} s" if other["training_rows"] else ""
        )
        print(f"  {'compared':20} {other['mse']:.4f} ({other['imputer']}; {other['rows']:,} rows{learned})")
    for picture in found["pictures"]:
        print(f"  {'picture':20} {picture}")


def print_mixing(r_hat: float | None, draws: float | None, not_mixed_percent: float | None) -> None:
    """How far the chains can be trusted, and a warning where they cannot."""
    if r_hat is not None:
        print(f"  {'R-hat':20} {r_hat:.3f} (median)")
    if draws is not None:
        print(f"  {'independent draws':20} {draws:.0f} (median)")
    if not_mixed_percent:
        say(f"warning: the chains of {not_mixed_percent:.1f} % of the rows have not mixed (R-hat above 1.1); use more "
            "--steps, or --method importance")  # fmt: skip

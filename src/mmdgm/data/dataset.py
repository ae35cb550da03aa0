"""A data set as it lies in memory: raw values, integer labels, and a schema that says what each column is.

Pixels stay uint8 and holes stay NaN until a step needs them (`mmdgm.data.batches`). Nothing here needs torch.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mmdgm.errors import InputError

UNKNOWN = -1
"""The label of a row whose class is not known: it takes part in the bound and has no hinge loss."""

Kind = Literal["real", "positive", "binary", "categorical"]
Values = NDArray[np.uint8] | NDArray[np.floating[Any]]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Column:
    """One column of a table; `mean` and `scale` standardise a real one, `levels` name a category's codes.

    A positive one is standardised on a logarithmic scale, as log(x + offset); the offset lets it hold zeros.
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    mean: float = 0.0
    scale: float = 1.0
    offset: float = 0.0

    @property
    def width(self) -> int:
        """How many numbers the networks see for it: one, or one for each level."""
        return len(self.levels) if self.kind == "categorical" else 1


@dataclass(frozen=True)
class Schema:
    """What a row holds: an image of values in [0, 1] (or bytes), or the columns of a table."""

    image_shape: tuple[int, ...] | None = None
    columns: tuple[Column, ...] = ()

    @property
    def width(self) -> int:
        """How many numbers the networks see for a row."""
        if self.image_shape is not None:
            return int(np.prod(self.image_shape))
        return sum(column.width for column in self.columns)

    @property
    def raw_width(self) -> int:
        """How many values a row of the user's has."""
        return self.width if self.image_shape is not None else len(self.columns)

    def fitted(self, x: Values, weights: NDArray[np.float64] | None = None) -> "Schema":
        """The same schema, its numbers standardised by the observed values of `x` (training rows only)."""
        w = np.ones(len(x)) if weights is None else weights
        with np.errstate(over="ignore", invalid="ignore"):  # said below, in words
            fitted = tuple(_fitted(c, x[:, i], w) for i, c in enumerate(self.columns))
        for column in fitted:
            if not np.isfinite([column.mean, column.scale]).all():
                raise InputError(f"column '{column.name}' has values too large to be standardised; divide them first.")
        return replace(self, columns=fitted)

    def encode(self, x: Values) -> Values:
        """Raw rows as the networks see them: images as they are, a table standardised and one-hot."""
        if self.image_shape is not None:
            return x
        return np.concatenate([_encode(c, x[:, i]) for i, c in enumerate(self.columns)], axis=1)

    def decode(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """The way back: the most probable level of a category, a real column in its own units."""
        if self.image_shape is not None:
            return x
        ends = np.cumsum([column.width for column in self.columns])
        parts = np.split(x, ends[:-1], axis=1)
        return np.stack([_decode(c, part) for c, part in zip(self.columns, parts, strict=True)], axis=1)

    def to_json(self) -> dict[str, Any]:
        """The schema as it stands in a run folder."""
        return asdict(self)

    @staticmethod
    def from_json(stored: dict[str, Any]) -> "Schema":
        """The schema that `to_json` wrote."""
        shape = stored["image_shape"]
        columns = tuple(Column(**{**c, "levels": tuple(c["levels"])}) for c in stored["columns"])
        return Schema(tuple(shape) if shape is not None else None, columns)


def _fitted(column: Column, values: NDArray[Any], weights: NDArray[np.float64]) -> Column:
    """The column with mean and scale (and offset) of its observed values, if it holds numbers on a scale."""
    known = ~np.isnan(values)
    seen, w = values[known].astype(np.float64), weights[known]
    if column.kind not in ("real", "positive") or not w.any():
        return column
    if column.kind == "positive":
        column = replace(column, offset=_offset(seen))
        seen = np.log(seen + column.offset)
    mean = float(np.average(seen, weights=w))
    scale = float(np.sqrt(np.average(np.square(seen - mean), weights=w)))
    return replace(column, mean=mean, scale=scale if scale > 1e-12 * abs(mean) else 1.0)


def _offset(seen: NDArray[np.float64]) -> float:
    """Half of the least value above zero if there are zeros, which have no logarithm."""
    above = seen[seen > 0]
    if len(above) == len(seen):
        return 0.0
    return float(above.min() / 2) if len(above) else 1.0


def _encode(column: Column, values: NDArray[Any]) -> NDArray[np.float32]:
    if column.kind == "positive":
        least = column.offset or np.finfo(np.float64).tiny  # a new row's zero, where training had none
        values = np.log(np.maximum(values + column.offset, least))
    if column.kind in ("real", "positive"):
        return ((values - column.mean) / column.scale).astype(np.float32)[:, None]
    if column.kind == "binary":
        return values.astype(np.float32)[:, None]
    missing = np.isnan(values)
    codes = np.where(missing, 0, values).astype(np.int64)
    one_hot = np.eye(len(column.levels), dtype=np.float32)[codes]
    one_hot[missing] = np.nan
    return one_hot


def _decode(column: Column, values: NDArray[np.float32]) -> NDArray[np.float32]:
    if column.kind == "categorical":
        codes: NDArray[np.float32] = values.argmax(axis=1).astype(np.float32)
        return codes
    own_units: NDArray[np.float32] = values[:, 0] * np.float32(column.scale) + np.float32(column.mean)
    if column.kind == "positive":
        own_units = np.maximum(np.exp(own_units) - np.float32(column.offset), np.float32(0))
    return own_units


@dataclass(frozen=True)
class Dataset:
    """Rows, their labels (`UNKNOWN` where there is none), the classes' names, and the schema of a row.

    `official_test` counts the rows at the end that their publisher set apart as the test set, `official_valid` those
    before them that the paper holds back for validation. `weights` say how often a row counts (see
    `mmdgm.data.weights`); without them every row counts once.
    """

    name: str
    x: Values
    y: Labels
    classes: tuple[str, ...]
    schema: Schema
    official_test: int = 0
    official_valid: int = 0
    weights: NDArray[np.float64] | None = None
    _hash: list[str] = field(default_factory=list, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def sha256(self) -> str:
        """A hash of every value and label: two runs with the same one saw the same data."""
        if not self._hash:
            digest = hashlib.sha256()
            for array in (self.x, self.y):
                digest.update(f"{array.dtype} {array.shape}".encode())
                digest.update(np.ascontiguousarray(array).data)
            self._hash.append(digest.hexdigest())
        return self._hash[0]

    def take(self, rows: NDArray[np.int64] | slice) -> "Dataset":
        """Some of the rows, in the order asked for."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(
            self, x=self.x[rows], y=self.y[rows], official_test=0, official_valid=0, weights=weights, _hash=[]
        )


def has_holes(dataset: Dataset) -> bool:
    """Whether any entry is missing."""
    return dataset.x.dtype != np.uint8 and bool(np.isnan(dataset.x).any())


def encode_labels(labels: Sequence[Any] | NDArray[Any]) -> tuple[Labels, tuple[str, ...]]:
    """Labels of any type as codes 0, 1, ... in the order of their values; None, NaN and '' mean unknown."""
    listed = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    known = {label for label in listed if not _blank(label)}
    try:
        ordered = sorted(known)
    except TypeError:
        ordered = sorted(known, key=lambda label: (type(label).__name__, str(label)))
    codes = {label: code for code, label in enumerate(ordered)}
    y = np.array([UNKNOWN if _blank(label) else codes[label] for label in listed], dtype=np.int64)
    return y, tuple(str(label) for label in ordered)


def _blank(label: Any) -> bool:
    return label is None or label in ("", b"") or (isinstance(label, float) and np.isnan(label))

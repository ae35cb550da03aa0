"""A user's rows with their holes filled, in the user's own units and type."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mmdgm.data.batches import Batch
from mmdgm.data.dataset import Schema
from mmdgm.evaluation_holes import not_mixed_percent
from mmdgm.imputation import Imputation, Imputer, impute
from mmdgm.model import MaxMarginDGM
from mmdgm.runtime import Runtime


@dataclass(frozen=True)
class Filled:
    """Rows with their holes filled where they are `missing`; what was observed is as it was, to the bit.

    spread is the standard deviation of each missing value (of a category: the probability that it is another one), 0
    where nothing is missing. r_hat and draws say of each row whether its chains have mixed and how many independent
    draws they are worth, NaN where nothing is missing or there are no chains.
    """

    x: NDArray[Any]
    missing: NDArray[np.bool_]
    spread: NDArray[np.float32]
    r_hat: NDArray[np.float32]
    draws: NDArray[np.float32]
    copies: tuple[NDArray[Any], ...]
    not_mixed_percent: float | None


def fill_rows(
    model: MaxMarginDGM,
    x: NDArray[Any],
    rows: Batch,
    how: Imputer,
    seed: int,
    runtime: Runtime | None,
    on_progress: Callable[[int, int], None],
) -> Filled:
    """Fill x, the user's values, where `rows`, the same as the networks see them, are not observed."""
    runtime = runtime or Runtime(str(rows.x.device), "float32", compile=False)
    found = impute(model, rows, how, seed, runtime, on_progress)
    missing = _by_value(~rows.observed, model.schema).reshape(x.shape)
    return Filled(
        x=_into(x, _in_units_of(x, found.x, model.schema), missing),
        missing=missing,
        spread=np.where(missing, _spread(x, found, model.schema).reshape(x.shape), np.float32(0)),
        r_hat=found.r_hat.cpu().numpy(),
        draws=found.draws.cpu().numpy(),
        copies=tuple(_into(x, _in_units_of(x, copy, model.schema), missing) for copy in found.copies),
        not_mixed_percent=not_mixed_percent(found),
    )


def _into(x: NDArray[Any], filled: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[Any]:
    """A copy of x, of its own type, with `filled` where values are missing; whole numbers stay in the type's range."""
    made = x.copy()
    new = filled.reshape(x.shape)[missing]
    if x.dtype.kind in "iu":
        range_ = np.iinfo(x.dtype)
        new = new.astype(np.float64).round().clip(range_.min, range_.max)
    made[missing] = new.round() if x.dtype.kind == "b" else new
    return made


def _by_value(missing: Tensor, schema: Schema) -> NDArray[np.bool_]:
    """One boolean for each value of the user's: a category is missing whole."""
    found: NDArray[np.bool_] = missing.cpu().numpy()
    if schema.image_shape is not None:
        return found
    return found[:, np.cumsum([0, *(column.width for column in schema.columns)])[:-1]]


def _in_units_of(x: NDArray[Any], filled: Tensor, schema: Schema) -> NDArray[np.float32]:
    """Pixels as bytes where x is bytes; columns in their own units, binary ones as 0 or 1, categories as codes."""
    decoded = schema.decode(filled.float().cpu().numpy())
    if schema.image_shape is not None:
        return decoded.clip(0, 1) * np.float32(255 if x.dtype == np.uint8 else 1)
    for i, column in enumerate(schema.columns):
        if column.kind == "binary":
            decoded[:, i] = decoded[:, i].round()
    return decoded


def _spread(x: NDArray[Any], found: Imputation, schema: Schema) -> NDArray[np.float32]:
    spread = found.spread.float().cpu().numpy()
    if schema.image_shape is not None:
        return spread * np.float32(255 if x.dtype == np.uint8 else 1)
    ends = np.cumsum([column.width for column in schema.columns])
    own = schema.decode(found.x.float().cpu().numpy())
    parts = []
    for i, (column, end) in enumerate(zip(schema.columns, ends, strict=True)):
        where = slice(end - column.width, end)
        if column.kind == "categorical":
            parts.append(1 - found.x[:, where].amax(-1).float().cpu().numpy())
        else:
            unit: Any = np.float32(column.scale)
            if column.kind == "positive":  # of a logarithm: a change of it by d changes the value by d times the value
                unit = unit * (own[:, i] + np.float32(column.offset))
            parts.append(spread[:, where.start] * unit)
    return np.stack(parts, axis=1)

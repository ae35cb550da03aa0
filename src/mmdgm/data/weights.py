"""How often a row counts. A row of weight 2 is two equal rows, one of weight 0 is none; nothing here needs torch.

An epoch has as many places as the weights sum to. Place i covers the cumulative weights from i to i + 1, and one number
in it, drawn uniformly, says which row stands there. With whole weights that is no matter of chance: an epoch is what
it would be with the rows repeated. The mini-batches are then unbiased draws of the weighted objective.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.dataset import Dataset, Labels, Values


def places(weights: NDArray[np.float64]) -> int:
    """How many examples an epoch has."""
    return max(1, round(float(weights.sum())))


def rows_in_places(weights: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.int64]:
    """The row in every place, for one number u in [0, 1) for each place."""
    ends = np.cumsum(weights)
    at = (np.arange(len(u)) + u) * (ends[-1] / len(u))
    found: NDArray[np.int64] = np.searchsorted(ends, at, side="right").clip(max=len(weights) - 1)
    return found


def at_least_once(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same weights in proportion, scaled up where they are so small that an epoch would miss rows.

    Whole weights stay as they are, and so do any that count a row once or more on average.
    """
    some = weights > 0
    return weights * max(1.0, float(some.sum() / weights.sum()))


def merged(dataset: Dataset) -> Dataset:
    """Every distinct row once, with the weight of all that equal it, in an order of their content; none of weight 0.

    So what is learned depends neither on the order of the rows nor on how a repetition is written.
    """
    weights = np.ones(len(dataset)) if dataset.weights is None else dataset.weights
    content = _bytes(dataset.x, dataset.y)
    _, first, which = np.unique(content, return_index=True, return_inverse=True)
    total = np.bincount(which, weights=weights)
    kept = total > 0
    return replace(dataset.take(first[kept]), weights=total[kept].astype(np.float64))


def _bytes(x: Values, y: Labels) -> NDArray[np.void]:
    """Each row and its label as one value that can be sorted; all NaN are alike, and so are 0 and -0."""
    rows: NDArray[Any] = x.reshape(len(x), -1)
    if rows.dtype.kind == "f":
        rows = np.where(np.isnan(rows), np.nan, rows + 0.0).astype(rows.dtype)
    parts = [np.ascontiguousarray(part).view(np.uint8).reshape(len(x), -1) for part in (rows, y)]
    joined = np.ascontiguousarray(np.concatenate(parts, axis=1))
    found: NDArray[np.void] = joined.view(np.dtype((np.void, joined.shape[1]))).reshape(-1)
    return found

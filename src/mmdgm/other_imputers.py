"""scikit-learn's imputers on the same holes, to compare with: mean, nearest neighbours, and iterative regression.

Two of them are slow, so all see the same few rows: `rows` with holes, and whole training rows to learn from. For the
same reason the iterative one regresses every value on the 20 that correlate with it most, three times over.
"""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TRAINING_ROWS = 5000
_ITERATIVE_ROWS = 2000
_NEIGHBOURS = 10
_NEAREST_VALUES = 20
_ROUNDS = 3


def compare(
    train: NDArray[np.float32],
    truth: NDArray[np.float32],
    missing: NDArray[np.bool_],
    ours: NDArray[np.float32],
    seed: int,
) -> list[dict[str, Any]]:
    """Mean squared error over the missing entries and seconds of each, ours first; all in the units of the networks.

    `truth` may be NaN where nobody knows it; that is missing, too, and not counted.
    """
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

    known = missing & ~np.isnan(truth)
    holed = np.where(missing, np.nan, truth)
    train = train[:_TRAINING_ROWS]
    some = train[:_ITERATIVE_ROWS]
    iterative = IterativeImputer(n_nearest_features=_NEAREST_VALUES, max_iter=_ROUNDS, random_state=seed)
    neighbours = KNNImputer(n_neighbors=_NEIGHBOURS, keep_empty_features=True)
    tasks = {
        "mean": (train, lambda: SimpleImputer(keep_empty_features=True).fit(train).transform(holed)),
        f"{_NEIGHBOURS} nearest neighbours": (train, lambda: neighbours.fit(train).transform(holed)),
        # it learns to fill only what it has seen missing, so the rows with holes are learned from, too
        "iterative": (some, lambda: _quietly(iterative, np.concatenate([holed, some]))[: len(holed)]),
    }
    found = [{"imputer": "mmdgm", "rows": len(truth), "training_rows": None, "mse": _mse(ours, truth, known)}]
    for name, (learned_from, work) in tasks.items():
        began = time.monotonic()
        filled = work()
        seconds = round(time.monotonic() - began, 2)
        mse = _mse(filled, truth, known)
        found.append(
            {"imputer": name, "rows": len(truth), "training_rows": len(learned_from), "mse": mse, "seconds": seconds}
        )
    return found


def _quietly(imputer: Any, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """It warns that it has not converged, which three rounds are not meant to."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        filled: NDArray[np.float32] = imputer.fit_transform(x)
    return filled


def _mse(filled: NDArray[np.float32], truth: NDArray[np.float32], known: NDArray[np.bool_]) -> float:
    return float(np.square((filled - truth)[known], dtype=np.float64).mean())

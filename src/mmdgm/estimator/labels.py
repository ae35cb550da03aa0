"""Labels of any type as codes, and which rows have none."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _assert_all_finite, check_consistent_length

from mmdgm.data.dataset import UNKNOWN, Labels

AUTO = "auto"
_MARK = -1
_NOTHING = object()


def mark_of(y: NDArray[Any], unlabelled: Any, classes: Iterable[Any] | None) -> Any:
    """The value of y that stands for no label.

    By itself it is -1, as in sklearn.semi_supervised, unless -1 is among the classes; where these are not named, it is
    one if there is but one other: -1 and 1 are what many call two classes.
    """
    if not isinstance(unlabelled, str) or unlabelled != AUTO:
        return unlabelled
    others = set(y.tolist()) - {_MARK} if classes is None else set()
    is_class = len(others) == 1 if classes is None else _MARK in list(classes)
    return _NOTHING if is_class else _MARK


def is_unlabelled(y: NDArray[Any], unlabelled: Any) -> NDArray[np.bool_]:
    """Where y holds the value that stands for no label; None and NaN equal themselves here."""
    if unlabelled is None:
        return np.array([label is None for label in y.tolist()], dtype=bool)
    if isinstance(unlabelled, float) and np.isnan(unlabelled):
        return np.array([isinstance(label, float) and np.isnan(label) for label in y.tolist()], dtype=bool)
    if y.dtype.kind in "US" and not isinstance(unlabelled, str):
        return np.zeros(len(y), dtype=bool)
    return np.array([bool(label == unlabelled) for label in y.tolist()], dtype=bool)


def checked(y: Any, X: Any, unlabelled: Any, classes: Iterable[Any] | None) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """y as one column of labels, and where there is one; scikit-learn's errors for what is no classification."""
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")
    column: NDArray[Any] = column_or_1d(y, warn=True)
    check_consistent_length(X, column)
    mark = mark_of(column, unlabelled, classes)
    known = ~is_unlabelled(column, mark)
    labels = column[known]
    if labels.dtype == object and known.any() and not known.all():
        labels = np.array(labels.tolist())  # an integer mark among texts made the whole column objects
    _assert_all_finite(labels, input_name="y")
    if not known.any():
        raise ValueError(
            f"y has no label: every one is {mark!r}, which stands for an unlabelled row. A classifier needs labels of "
            "two or more classes; MaxMarginDGM learns without labels."
        )
    check_classification_targets(labels)
    whole = np.zeros(len(column), dtype=labels.dtype)
    whole[known] = labels
    return whole, known


def encoded(y: NDArray[Any], known: NDArray[np.bool_], classes: NDArray[Any]) -> Labels:
    """Codes of the labels in the order of the classes, `UNKNOWN` where there is none."""
    codes = np.full(len(y), UNKNOWN, dtype=np.int64)
    at = np.searchsorted(classes, y[known])
    strange = classes[at.clip(max=len(classes) - 1)] != y[known]
    if strange.any():
        raise ValueError(f"y contains labels that are none of the classes: {np.unique(y[known][strange]).tolist()}.")
    codes[known] = at
    return codes


def need_two(classes: NDArray[Any]) -> None:
    """A classifier needs two classes; scikit-learn's words where there is one."""
    if len(classes) < 2:
        raise ValueError(
            "This solver needs samples of at least 2 classes in the data, but the data contains only one class: "
            f"{classes.tolist()[0]!r}."
        )

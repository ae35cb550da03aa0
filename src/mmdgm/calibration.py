"""Decision values as probabilities: p(y | x) = softmax(F(y; x) / T), with one temperature T for all classes.

Dividing by a temperature keeps the order of the classes and, for two classes, that of the rows: a row that scores
higher is given a higher probability. The temperature is the one under which labels of rows that were held out from
training are most probable. They count as Platt (1999) has them: a class with k of the rows is certain of its own to
(k + 1) / (k + 2) and not to 1, or a handful of rows, all of them right, would ask for a temperature of zero.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

_RANGE = (-7.0, 7.0)
"""Of log T: a thousandth to a thousand."""


def probabilities(scores: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """softmax(F / T), one row of probabilities for each row of decision values."""
    found: NDArray[np.float64] = softmax(scores / temperature, axis=1)
    return found


def temperature(scores: NDArray[np.float64], y: NDArray[np.int64], weights: NDArray[np.float64]) -> float:
    """T with the least cross-entropy against the softened labels y (codes, none unknown), each row by its weight."""
    classes = scores.shape[1]
    count = np.bincount(y, weights=weights, minlength=classes)
    certain = ((count + 1) / (count + 2))[y]
    targets = np.repeat(((1 - certain) / (classes - 1))[:, None], classes, axis=1)
    targets[np.arange(len(y)), y] = certain

    def cross_entropy(log_temperature: float) -> float:
        return -float(weights @ (targets * log_softmax(scores / np.exp(log_temperature), axis=1)).sum(1))

    return float(np.exp(minimize_scalar(cross_entropy, bounds=_RANGE, method="bounded").x))

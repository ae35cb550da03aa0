"""How well the estimators classify and fill in real tables with holes, beside what scikit-learn has for that.

The same rows, splits and holes for all. Entries are removed at random from training and test rows alike. For the
others a category comes one-hot, missing in all of its columns, and the columns are standardised where that matters to a
method. All have their default parameters, but for what `methods` says.

The imputation error is over the removed numbers of the test rows: root mean square of (filled - true) / standard
deviation of the column in the training rows. Filling in the mean is about 1.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.tables import load_table

SHARES = (0.0, 0.3, 0.6)
OURS = "MaxMarginDGMClassifier"
_TEST_SHARE = 0.3


def methods(seed: int) -> dict[str, tuple[Callable[[], Any], bool]]:
    """Each method and whether it fills in: the first step of its pipeline then does, after the scaling."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def after(imputer: Any, classifier: Any) -> Any:
        return make_pipeline(StandardScaler(), imputer, classifier)

    iterative = IterativeImputer(random_state=seed, n_nearest_features=20, keep_empty_features=True)
    mean, neighbours = (maker(keep_empty_features=True) for maker in (SimpleImputer, KNNImputer))
    return {
        "HistGradientBoosting": (lambda: HistGradientBoostingClassifier(random_state=seed), False),
        "kNN imputer + logistic regression": (lambda: after(neighbours, LogisticRegression(max_iter=1000)), True),
        "iterative imputer + logistic regression": (lambda: after(iterative, LogisticRegression(max_iter=1000)), True),
        "k nearest neighbours, mean": (lambda: after(mean, KNeighborsClassifier()), True),
        "random forest, mean": (lambda: after(mean, RandomForestClassifier(random_state=seed)), True),
    }


def bench_tables(names: tuple[str, ...], seeds: int, threads: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Accuracy and imputation error of every method on every table, share of removed entries, and seed."""
    from mmdgm.runtime import machine, versions

    found = []
    for name in names:
        for share in SHARES:
            for seed in range(seeds):
                say(f"{name}, {100 * share:.0f} % removed, seed {seed}")
                found += _one(name, share, seed, threads)
    about = "entries removed at random from training and test rows; 70 % of the rows train, split by class"
    return {
        "bench": "tables",
        "protocol": about,
        "seeds": seeds,
        "figures": found,
        "versions": versions(),
        "machine": machine("cpu"),
    }


def _one(name: str, share: float, seed: int, threads: int) -> list[dict[str, Any]]:
    """All methods on one split with one set of holes."""
    from sklearn.model_selection import train_test_split

    whole, y = load_table(name)
    rng = np.random.default_rng([seed, round(100 * share)])
    removed = rng.random(whole.shape) < share
    X = whole.mask(removed)
    rows = np.arange(len(y))
    train, test = train_test_split(rows, test_size=_TEST_SHARE, random_state=seed, stratify=y)
    told = {"table": name, "removed": share, "seed": seed}
    lines = [{**told, **_ours(X, whole, y, removed, train, test, seed, threads)}]
    for method, (make, fills) in methods(seed).items():
        began = time.monotonic()
        coded, truth, number = _one_hot(X, train), whole, _numbers(whole)
        model = _quietly(make(), coded[train], y[train])
        line = {"method": method, "accuracy": float((model.predict(coded[test]) == y[test]).mean()), "error": None}
        if fills and share:
            filled = model[0].inverse_transform(_imputed(model, coded[test]))[:, : len(number)]
            line["error"] = _error(filled, truth, removed, number, train, test)
        lines.append({**told, **line, "seconds": round(time.monotonic() - began, 2)})
    return lines


def _ours(
    X: Any, whole: Any, y: NDArray[Any], removed: NDArray[np.bool_], train: Any, test: Any, seed: int, threads: int
) -> dict[str, Any]:
    from mmdgm.estimator import MaxMarginDGMClassifier

    began = time.monotonic()
    model = MaxMarginDGMClassifier(random_state=seed, threads=threads).fit(X.iloc[train], y[train])
    line = {"method": OURS, "accuracy": float((model.predict(X.iloc[test]) == y[test]).mean()), "error": None}
    if removed.any():
        number = _numbers(whole)
        filled = model.impute(X.iloc[test])[number].to_numpy()
        line["error"] = _error(filled, whole, removed, number, train, test)
    return {**line, "seconds": round(time.monotonic() - began, 2)}


def _numbers(table: Any) -> list[str]:
    return list(table.select_dtypes("number").columns)


def _one_hot(X: Any, train: NDArray[np.int64]) -> NDArray[np.float64]:
    """Numbers as they are and first, then categories (those of the training rows) one-hot, missing in all columns."""
    parts = [X[_numbers(X)].to_numpy()]
    for name in X.columns.difference(_numbers(X), sort=False):
        column = X[name]
        levels = sorted(column.iloc[train].dropna().unique())
        coded = np.stack([(column == level).to_numpy(dtype=float) for level in levels], axis=1)
        coded[column.isna().to_numpy()] = np.nan
        parts.append(coded)
    return np.concatenate(parts, axis=1)


def _imputed(model: Any, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    filled: NDArray[np.float64] = model[1].transform(model[0].transform(rows))
    return filled


def _quietly(model: Any, X: NDArray[np.float64], y: NDArray[Any]) -> Any:
    """The iterative imputer warns when its default number of rounds has not converged."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def _error(
    filled: NDArray[np.float64], whole: Any, removed: NDArray[np.bool_], number: list[str], train: Any, test: Any
) -> float:
    """Root mean square of the standardised error where a known number was removed."""
    truth = whole[number].to_numpy()
    scale = np.nanstd(truth[train], axis=0)
    at = removed[:, [whole.columns.get_loc(name) for name in number]][test] & ~np.isnan(truth[test]) & (scale > 0)
    apart = (filled - truth[test]) / np.where(scale > 0, scale, 1)
    return float(np.sqrt(np.mean(np.square(apart[at]))))

"""Real tables that packages carry, as DataFrames, for measuring the estimators. They need pandas.

breast-cancer, wine, digits    from scikit-learn: numbers only
penguins                       from palmerpenguins: numbers and categories, a few values missing by nature
cars                           from vega_datasets: numbers, a few values missing by nature; where a car was made
"""

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmdgm.errors import InputError, unknown


class Table(NamedTuple):
    """Rows of a DataFrame and their classes."""

    X: Any
    y: NDArray[Any]


def _of_sklearn(loader: str) -> Table:
    from sklearn import datasets

    bunch = getattr(datasets, loader)(as_frame=True)
    return Table(bunch.data, bunch.target_names[bunch.target.to_numpy()].astype(str))


def _content(package: str, path: str) -> str:
    try:
        return files(package).joinpath(path).read_text()
    except ModuleNotFoundError:
        raise InputError(f"this table comes with the package {package}: pip install {package}") from None


def _penguins() -> Table:
    import io

    import pandas

    frame = pandas.read_csv(io.StringIO(_content("palmerpenguins", "data/penguins.csv")))
    return Table(frame.drop(columns=["species", "year"]), frame["species"].to_numpy().astype(str))


def _cars() -> Table:
    import pandas

    frame = pandas.DataFrame(json.loads(_content("vega_datasets", "_data/cars.json")))
    frame["Year"] = frame["Year"].str[:4].astype(int)
    return Table(frame.drop(columns=["Name", "Origin"]), frame["Origin"].to_numpy().astype(str))


TABLES: dict[str, Callable[[], Table]] = {
    "breast-cancer": lambda: _of_sklearn("load_breast_cancer"),
    "wine": lambda: _of_sklearn("load_wine"),
    "digits": lambda: _of_sklearn("load_digits"),
    "penguins": _penguins,
    "cars": _cars,
}


def load_table(name: str) -> Table:
    """The table of that name; whatever holds no category holds floats, so that it can have holes."""
    if name not in TABLES:
        raise unknown("table", name, TABLES)
    X, y = TABLES[name]()
    numbers = X.select_dtypes("number").columns
    return Table(X.astype(dict.fromkeys(numbers, np.float64)), y)

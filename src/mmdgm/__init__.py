"""Max-margin deep generative models (Li, Zhu, Shi and Zhang, NIPS 2015).

    import mmdgm
    trained = mmdgm.train(mmdgm.recipe_named("mmva-mnist"), seed=0)

Names are imported when they are first used, so that `import mmdgm` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from mmdgm.api import load_run as load_run
    from mmdgm.api import resume as resume
    from mmdgm.api import train as train
    from mmdgm.data.dataset import Dataset as Dataset
    from mmdgm.data.sources import load as load
    from mmdgm.data.splits import split as split
    from mmdgm.errors import InputError as InputError
    from mmdgm.errors import WorkError as WorkError
    from mmdgm.estimator import MaxMarginDGM as MaxMarginDGM
    from mmdgm.estimator import MaxMarginDGMClassifier as MaxMarginDGMClassifier
    from mmdgm.recipes import Recipe as Recipe
    from mmdgm.recipes import recipe_named as recipe_named
    from mmdgm.trained import Trained as Trained

_HOME = {
    "MaxMarginDGM": "estimator",
    "MaxMarginDGMClassifier": "estimator",
    "Trained": "trained",
    "load_run": "api",
    "resume": "api",
    "train": "api",
    "Dataset": "data.dataset",
    "load": "data.sources",
    "split": "data.splits",
    "InputError": "errors",
    "WorkError": "errors",
    "Recipe": "recipes",
    "recipe_named": "recipes",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'mmdgm' has no attribute '{name}'")
    return getattr(import_module(f"mmdgm.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*_HOME, "__version__"])

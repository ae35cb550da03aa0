"""An estimator on disk: a run folder whose description also holds the estimator's parameters. Nothing is pickled."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mmdgm.data.dataset import Schema
from mmdgm.errors import InputError
from mmdgm.estimator.learning import Learned, state_of
from mmdgm.estimator.rows import Reader
from mmdgm.model import initialised
from mmdgm.novelty import Typical
from mmdgm.recipes import Recipe
from mmdgm.runs import RunFolder
from mmdgm.runtime import machine, versions
from mmdgm.sampling import ClassLatents

_FURTHER = "estimator.safetensors"


def save(estimator: Any, path: Path) -> None:
    """Write a fitted estimator into a new folder. What goes on from it later starts with an optimiser at rest."""
    learned: Learned = estimator._learned
    model = learned.model
    told = {
        "recipe": model.recipe.to_json(),
        "seed": estimator._seed,
        "data": {
            "name": "arrays",
            "classes": list(estimator._classes_as_text),
            "schema": model.schema.to_json(),
        },
        "estimator": {
            "class": type(estimator).__name__,
            "parameters": {name: _storable(name, value) for name, value in estimator.get_params().items()},
            "reader": estimator._reader.to_json(),
            "classes": _classes_to_json(estimator),
            "n_features_in": estimator.n_features_in_,
            "feature_names_in": _names(estimator),
            "temperature": learned.temperature,
            "epochs": learned.epochs,
            "calls": estimator._calls,
        },
        "versions": versions(),
        "machine": machine(str(model.classifier.linear.weight.device)),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    further = {
        "latents.means": learned.class_latents.means,
        "latents.factors": learned.class_latents.factors,
        "typical.mean": torch.from_numpy(learned.typical.mean),
        "typical.precision": torch.from_numpy(learned.typical.precision),
    }
    folder = RunFolder.create(path, told)
    folder.put_tensors(_FURTHER, further)
    folder.finish(model.state_dict(), {"finished": told["started"], "wall_seconds": None, "epoch_kept": learned.epochs})


def load(kind: type, path: Path) -> Any:
    """The estimator that `save` wrote into a folder; every file is checked against its sha256."""
    folder = RunFolder.open(path)
    described = folder.description
    told = described.get("estimator")
    if told is None:
        raise InputError(f"'{path}' is a run, but no estimator was saved there; load it with mmdgm.load_run.")
    if told["class"] != kind.__name__:
        raise InputError(
            f"'{path}' holds a {told['class']}; load it with {told['class']}.load, not {kind.__name__}.load."
        )
    estimator = kind(**_parameters(told["parameters"]))
    tensors, own = folder.weights(), folder.tensors(_FURTHER)
    classes = tuple(described["data"]["classes"])
    model = initialised(
        Recipe.from_json(described["recipe"]), Schema.from_json(described["data"]["schema"]), len(classes), 0
    )
    model = model.to(next(iter(tensors.values())).dtype)
    model.load_state_dict(tensors)
    model = model.to(estimator.device).requires_grad_(False).eval()
    latents = ClassLatents(own["latents.means"], own["latents.factors"])
    typical = Typical(own["typical.mean"].numpy(), own["typical.precision"].numpy())
    estimator._seed, estimator._calls, estimator._classes_as_text = described["seed"], told["calls"], classes
    estimator._reader = Reader.from_json(told["reader"])
    estimator._learned = Learned(
        model,
        told["temperature"],
        told["epochs"],
        ClassLatents(*(part.to(estimator.device) for part in latents)),
        typical,
        state_of(model),
        None,
    )
    estimator.n_features_in_, estimator.n_iter_ = told["n_features_in"], told["epochs"]
    if told["feature_names_in"] is not None:
        estimator.feature_names_in_ = np.array(told["feature_names_in"], dtype=object)
    if told["classes"] is not None:
        estimator.classes_ = np.array(told["classes"]["values"], dtype=told["classes"]["dtype"])
    return estimator


def _storable(name: str, value: Any) -> Any:
    """A parameter as JSON has it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and np.isnan(value):
        return {"nan": True}
    if isinstance(value, dict):
        return {"pairs": [[_storable(name, key), _storable(name, one)] for key, one in value.items()]}
    if isinstance(value, list | tuple | np.ndarray):
        return [_storable(name, one) for one in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise InputError(f"{name}={value!r} cannot be saved; set it to a number, a text or None first, with set_params.")


def _parameters(stored: dict[str, Any]) -> dict[str, Any]:
    return {name: _restored(value) for name, value in stored.items()}


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        return float("nan") if "nan" in value else {_restored(key): _restored(one) for key, one in value["pairs"]}
    return tuple(map(_restored, value)) if isinstance(value, list) else value


def _classes_to_json(estimator: Any) -> dict[str, Any] | None:
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return None
    values = [_storable("classes_", one) for one in classes.tolist()]
    return {"values": values, "dtype": "object" if classes.dtype == object else classes.dtype.str}


def _names(estimator: Any) -> list[str] | None:
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]

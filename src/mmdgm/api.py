"""The whole way in a few calls: train a recipe, keep the run, use the model. The command line stands on this."""

import io
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np

from mmdgm import plots
from mmdgm.convolution import ConvolutionStack
from mmdgm.data.batches import resident
from mmdgm.data.dataset import Dataset, Schema
from mmdgm.data.sources import load, remembered_as
from mmdgm.data.splits import SplitName, Splits, split
from mmdgm.embedding import Embedding, embed
from mmdgm.errors import InputError
from mmdgm.model import initialised
from mmdgm.recipes import Recipe
from mmdgm.runs import RunFolder, Tensors
from mmdgm.runtime import Runtime, check_device, choose_runtime, machine, versions
from mmdgm.trained import Trained
from mmdgm.training import Progress, Trainer, build_model, operations, start_from


def train(
    recipe: Recipe,
    data: Dataset | str | None = None,
    seed: int = 0,
    out: Path | str | None = None,
    runtime: Runtime | None = None,
    label: str | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_metrics: Callable[[dict[str, Any]], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
    init_from: Path | str | None = None,
) -> Trained | None:
    """Train a recipe, into a run folder if `out` names one. Returns nothing only if `should_stop` said so.

    `init_from` names a run whose recognition network this one starts with.
    """
    source = data if data is not None else recipe.data
    dataset = source if isinstance(source, Dataset) else load(source, label)
    splits = split(dataset, recipe.split, seed)
    runtime = runtime or choose_runtime(operations=operations(recipe, splits))
    model = build_model(recipe, splits.train, seed)  # what does not fit together is said before a folder is made
    initial = RunFolder.open(Path(init_from)) if init_from is not None else None
    if initial is not None:
        start_from(model, initial.weights())
    folder = None
    if out is not None:
        name = remembered_as(source) if isinstance(source, str) else dataset.name
        told = _description(recipe, splits, dataset, seed, runtime, name, label, initial)
        folder = RunFolder.create(Path(out), told)
    weights = initial.weights() if initial is not None else None
    return _carry_on(recipe, splits, seed, runtime, folder, on_progress, on_metrics, should_stop, weights)


def resume(
    path: Path | str,
    data: Dataset | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_metrics: Callable[[dict[str, Any]], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Trained | None:
    """Go on with a run that was stopped, as if it had not been; a finished one is only loaded.

    A run on a `Dataset` in memory, rather than on a name or a file, needs the same `data` again.
    """
    folder = RunFolder.open(Path(path))
    if folder.result is not None:
        return load_run(path)
    told = folder.description
    recipe, seed = Recipe.from_json(told["recipe"]), int(told["seed"])
    check_device(told["runtime"]["device"])
    splits = run_splits(folder, data)
    return _carry_on(recipe, splits, seed, Runtime(**told["runtime"]), folder, on_progress, on_metrics, should_stop)


def _carry_on(
    recipe: Recipe,
    splits: Splits,
    seed: int,
    runtime: Runtime,
    folder: RunFolder | None,
    on_progress: Callable[[Progress], None],
    on_metrics: Callable[[dict[str, Any]], None],
    should_stop: Callable[[], bool],
    initial: Tensors | None = None,
) -> Trained | None:
    trainer = Trainer(recipe, splits, seed, runtime, folder, on_progress, should_stop, on_metrics, initial)
    if folder is None:
        state = trainer.run()
    else:
        with folder.lock():
            state = trainer.run()
    if state is None:
        return None
    model = build_model(recipe, splits.train, seed)
    model.load_state_dict({name: value.cpu() for name, value in state.best.items()})
    trained = Trained(model.eval(), splits.train.classes, folder)
    if folder is not None:
        seen = len(splits.train) // trainer.batch_size * trainer.batch_size * recipe.epochs
        result = {
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "wall_seconds": round(state.seconds, 2),
            "examples_per_second": round(seen / state.seconds, 1),
            "epoch_kept": state.best_epoch,
            "validation": state.validation,
        }
        folder.finish(dict(state.best), result)
        _draw_pictures(trained, splits, folder)
    return trained


def _description(
    recipe: Recipe,
    splits: Splits,
    dataset: Dataset,
    seed: int,
    runtime: Runtime,
    name: str,
    label: str | None,
    initial: RunFolder | None,
) -> dict[str, Any]:
    """What `run.json` says: all that is needed to make the run again."""
    return {
        "recipe": recipe.to_json(),
        "seed": seed,
        "data": {
            "name": name,
            "label": label,
            "sha256": dataset.sha256,
            "rows": {"train": len(splits.train), "valid": len(splits.valid), "test": len(splits.test)},
            "classes": list(dataset.classes),
            "schema": splits.train.schema.to_json(),
        },
        "init_from": None if initial is None else _origin(initial),
        "runtime": runtime.to_json(),
        "versions": versions(),
        "machine": machine(runtime.device),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _origin(run: RunFolder) -> dict[str, Any]:
    """Which run another one started from."""
    told = run.description
    return {"recipe": told["recipe"]["name"], "seed": told["seed"], "weights_sha256": run.weights_sha256}


def run_splits(folder: RunFolder, data: Dataset | None = None) -> Splits:
    """The data of a run, split as it was; they must still be what they were."""
    told = folder.description
    dataset = data if data is not None else load(told["data"]["name"], told["data"]["label"])
    if dataset.sha256 != told["data"]["sha256"]:
        raise InputError(
            f"the data '{told['data']['name']}' have changed since the run '{folder.path}' began (their sha256 "
            "differs). Restore them, or evaluate them as new rows with --data."
        )
    return split(dataset, Recipe.from_json(told["recipe"]).split, int(told["seed"]))


def load_run(path: Path | str, device: str = "cpu") -> Trained:
    """The model of a run folder."""
    check_device(device)
    folder = RunFolder.open(Path(path))
    told = folder.description
    recipe, data = Recipe.from_json(told["recipe"]), told["data"]
    classes = tuple(data["classes"])
    model = initialised(recipe, Schema.from_json(data["schema"]), len(classes), seed=0)
    model.load_state_dict(folder.weights())
    return Trained(model.to(device).eval(), classes, folder)


def evaluate_run(
    path: Path | str,
    part: SplitName | None = None,
    data: str | None = None,
    label: str | None = None,
    device: str = "cpu",
    **how: Any,
) -> dict[str, Any]:
    """The figures of a run on a part of its own data, or on all rows of other data, with all that they rest on."""
    began = time.monotonic()
    trained = load_run(path, device)
    rows, name = rows_to_look_at(trained, part, data, label)
    figures = trained.evaluate(rows, name, **how).to_json()
    return {**figures, **provenance(trained, rows if data is not None else None, began)}


def embed_run(
    path: Path | str, what: str = "features", data: str | None = None, label: str | None = None
) -> tuple[bytes, tuple[int, int]]:
    """An .npz with the embedding of all rows, split as they are, and its shape."""
    trained = load_run(path)
    assert trained.folder is not None
    told = trained.folder.description["data"]
    dataset = load(told["name"], told["label"]) if data is None else load(data, label, usual=told["label"])
    rows = trained.aligned(dataset)
    x = embed(trained.model, resident(rows, trained.device), cast("Embedding", what))
    arrays: dict[str, Any] = {"x": x, "official_test": dataset.official_test, "official_valid": dataset.official_valid}
    if dataset.classes:
        arrays["y"] = np.array([*dataset.classes, ""])[dataset.y]
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue(), (x.shape[0], x.shape[1])


def rows_to_look_at(
    trained: Trained, part: SplitName | None, data: str | None, label: str | None
) -> tuple[Dataset, str]:
    """A part of the run's own data (the test rows unless named), or all rows of other data; and their name."""
    if data is not None and part is not None:
        raise InputError("--split names a part of the run's own data; leave it out with --data, or leave out --data.")
    if label is not None and data is None:
        raise InputError("--label names a column of other data; it needs --data.")
    assert trained.folder is not None
    if data is None:
        return run_splits(trained.folder).part(part or "test"), part or "test"
    rows = load(data, label, usual=trained.folder.description["data"]["label"])
    return rows, f"all rows of {rows.name}"


def provenance(trained: Trained, other: Dataset | None, began: float) -> dict[str, Any]:
    """What figures of a run rest on; `other` are rows that are not the run's own."""
    assert trained.folder is not None
    told, result = trained.folder.description, trained.folder.result
    return {
        "recipe": trained.recipe.name,
        "seed": told["seed"],
        "data": told["data"]["name"] if other is None else other.name,
        "data_sha256": told["data"]["sha256"] if other is None else other.sha256,
        "weights_sha256": trained.folder.weights_sha256,
        "settings": told["recipe"],
        "init_from": told.get("init_from"),
        "versions": told["versions"],
        "machine": told["machine"],
        "runtime": told["runtime"],
        "training_seconds": result["wall_seconds"] if result else None,
        "epoch_kept": result["epoch_kept"] if result else None,
        "finished": result is not None,
        "evaluation_seconds": round(time.monotonic() - began, 2),
    }


def _draw_pictures(trained: Trained, splits: Splits, folder: RunFolder) -> None:
    """Learning curves, and for images samples and reconstructions."""
    name = f"{trained.recipe.name}, seed {folder.description['seed']}"
    folder.put_picture("curves.png", plots.learning_curves(folder.metrics, name))
    network = trained.model.recognition.network
    if isinstance(network, ConvolutionStack):
        first = network.filters().cpu().float().numpy()
        folder.put_picture("filters.png", plots.filters(first, f"{name}: filters of the first layer"))
    if trained.schema.image_shape is None or trained.model.generative is None:
        return
    for draw, file, what in ((False, "samples.png", "means of p(x | z)"), (True, "draws.png", "draws from p(x | z)")):
        images, note = plots.shown(trained.sample(100, seed=0, draw=draw), trained.recipe.transform)
        folder.put_picture(file, plots.grid(images, f"{name}: {what}, z from the prior{note}"))
    shown = (splits.valid if len(splits.valid) else splits.train).take(slice(0, 40))
    scale = np.float32(255 if shown.x.dtype == np.uint8 else 1)
    originals = np.nan_to_num(shown.x.astype(np.float32)) / scale
    copies = trained.reconstruct(shown.x)
    folder.put_picture("reconstructions.png", plots.pairs(originals, copies, f"{name}: originals above, copies below"))

"""The whole way in a few calls: train a recipe, keep the run, use the model. The command line stands on this."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mmdgm import evaluation, plots, sampling
from mmdgm.convolution import ConvolutionStack
from mmdgm.data.batches import Batch, resident
from mmdgm.data.dataset import UNKNOWN, Column, Dataset, Schema
from mmdgm.data.sources import load
from mmdgm.data.splits import SplitName, Splits, split
from mmdgm.errors import InputError
from mmdgm.model import MaxMarginDGM, initialised
from mmdgm.recipes import Recipe
from mmdgm.runs import RunFolder, Tensors
from mmdgm.runtime import Runtime, check_device, choose_runtime, machine, versions
from mmdgm.training import Progress, Trainer, build_model, operations, start_from


@dataclass(frozen=True)
class Trained:
    """A trained model, with what is needed to use it on new rows."""

    model: MaxMarginDGM
    classes: tuple[str, ...]
    folder: RunFolder | None = None

    @property
    def recipe(self) -> Recipe:
        """How it was made."""
        return self.model.recipe

    @property
    def schema(self) -> Schema:
        """What a row holds."""
        return self.model.schema

    def decision_values(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """F(y; x) for every row and class."""
        self._need_classes()
        self.model.eval()
        with torch.no_grad():
            scores = evaluation.decision_values(self.model, self._rows(x))
        found: NDArray[np.float32] = scores.cpu().numpy()
        return found

    def predict(self, x: NDArray[Any]) -> NDArray[np.str_]:
        """The names of the most probable classes."""
        names: NDArray[np.str_] = np.array(self.classes)[self.decision_values(x).argmax(axis=1)]
        return names

    def sample(self, n: int, seed: int = 0, draw: bool = False) -> NDArray[np.float32]:
        """`n` new rows (see `mmdgm.sampling`)."""
        return sampling.sample(self.model, n, seed, draw)

    def reconstruct(self, x: NDArray[Any], seed: int = 0) -> NDArray[np.float32]:
        """Rows as the model sees them."""
        return sampling.reconstruct(self.model, self._rows(x), seed)

    def evaluate(self, dataset: Dataset, name: str = "given rows", **how: Any) -> evaluation.Evaluation:
        """All the figures on some rows (see `mmdgm.evaluation.evaluate`)."""
        aligned = self._aligned(dataset)
        return evaluation.evaluate(self.model, resident(aligned, self._device), self.classes, split=name, **how)

    def _aligned(self, dataset: Dataset) -> Dataset:
        """The same rows under this model's schema, their labels as this model's codes."""
        mine, theirs = self.schema, dataset.schema
        same = mine.image_shape == theirs.image_shape
        if not same or [c.name for c in mine.columns] != [c.name for c in theirs.columns]:
            raise InputError(
                f"--data: the run was trained on {_described(mine)}, but '{dataset.name}' has {_described(theirs)}."
            )
        x = dataset.x.copy()
        for i, (own, other) in enumerate(zip(mine.columns, theirs.columns, strict=True)):
            x[:, i] = _as_column(x[:, i], other, own, dataset.name)
        codes = {label: code for code, label in enumerate(self.classes)}
        if self.recipe.C > 0 and dataset.classes and not set(dataset.classes) & set(codes):
            raise InputError(
                f"--data: the labels of '{dataset.name}' ({', '.join(dataset.classes[:5])}, ...) are none of the run's "
                f"({', '.join(self.classes[:5])}, ...). Name the label column with --label, or give the same labels."
            )
        table = np.array([*(codes.get(label, UNKNOWN) for label in dataset.classes), UNKNOWN])
        return Dataset(dataset.name, x, table[dataset.y], self.classes, mine)

    def _rows(self, x: NDArray[Any]) -> Batch:
        """New rows, checked once, here."""
        x = np.asarray(x)
        if x.dtype.kind not in "fiub":
            raise InputError(f"x must hold numbers; its type is {x.dtype}.")
        image = self.schema.image_shape is not None
        if x.ndim < 2 or not x.size or x.size != len(x) * self.schema.raw_width:
            raise InputError(
                f"x must have one or more rows of {self.schema.raw_width} values, as in training; its shape is "
                f"{x.shape}."
            )
        values = x.reshape(len(x), -1)
        if not (image and x.dtype == np.uint8):
            values = values.astype(np.float32 if image else np.float64)
            self._check_values(values)
        y = np.full(len(values), UNKNOWN, dtype=np.int64)
        return resident(Dataset("rows", values, y, self.classes, self.schema), self._device)

    def _check_values(self, values: NDArray[Any]) -> None:
        if np.isinf(values).any():
            raise InputError("x must hold finite numbers or NaN; it holds infinite ones.")
        seen = values[~np.isnan(values)]
        if self.schema.image_shape is not None and len(seen) and (seen.min() < 0 or seen.max() > 1):
            raise InputError(
                f"x must hold images of bytes (uint8), or of numbers in [0, 1]; its values run from {seen.min():g} to "
                f"{seen.max():g}."
            )
        for i, column in enumerate(self.schema.columns):
            codes = values[:, i][~np.isnan(values[:, i])]
            known = {"categorical": len(column.levels), "binary": 2}.get(column.kind)
            if known is not None and not np.isin(codes, np.arange(known)).all():
                raise InputError(
                    f"x: column '{column.name}' is {column.kind}; it must hold codes from 0 to {known - 1}."
                )

    def _need_classes(self) -> None:
        if not self.recipe.C > 0:
            raise InputError(f"recipe '{self.recipe.name}' was trained without labels (C=0): it cannot classify.")

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


def _described(schema: Schema) -> str:
    if schema.image_shape is not None:
        return " x ".join(map(str, schema.image_shape)) + " images"
    return f"{len(schema.columns)} columns ({', '.join(c.name for c in schema.columns[:5])}, ...)"


def _as_column(values: NDArray[Any], theirs: Column, mine: Column, data: str) -> NDArray[Any]:
    """A column of other data as the run knows it; a file's own kind was guessed from the few values that it holds."""
    if mine.kind == "categorical" and theirs.kind == "categorical":
        return _recoded(values, theirs.levels, mine.levels)
    numbers = theirs.kind != "categorical" and mine.kind != "categorical"
    if not numbers or (mine.kind == "binary" and theirs.kind == "real"):
        raise InputError(f"--data: column '{mine.name}' was {mine.kind} in training, but is {theirs.kind} in '{data}'.")
    return values


def _recoded(codes: NDArray[Any], levels: tuple[str, ...], known: tuple[str, ...]) -> NDArray[np.float32]:
    """Codes of one table's levels as another's; a level that was never seen is a hole."""
    place = {level: float(code) for code, level in enumerate(known)}
    table = np.array([*(place.get(level, np.nan) for level in levels), np.nan], dtype=np.float32)
    recoded: NDArray[np.float32] = table[np.where(np.isnan(codes), len(levels), codes).astype(int)]
    return recoded


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
        name = source if isinstance(source, str) else dataset.name
        if isinstance(source, str) and Path(source).exists():
            name = str(Path(source).resolve())
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
    if data is not None and part is not None:
        raise InputError("--split names a part of the run's own data; leave it out with --data, or leave out --data.")
    if label is not None and data is None:
        raise InputError("--label names a column of other data; it needs --data.")
    began = time.monotonic()
    trained = load_run(path, device)
    assert trained.folder is not None
    told = trained.folder.description
    if data is None:
        part = part or "test"
        rows, name = run_splits(trained.folder).part(part), str(part)
        sha256 = told["data"]["sha256"]
    else:
        rows = load(data, label)
        name, sha256 = f"all rows of {rows.name}", rows.sha256
    figures = trained.evaluate(rows, name, **how).to_json()
    result = trained.folder.result
    return {
        **figures,
        "recipe": trained.recipe.name,
        "seed": told["seed"],
        "data": told["data"]["name"] if data is None else rows.name,
        "data_sha256": sha256,
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

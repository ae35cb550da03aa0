"""A trained model and what can be done with it: classify, fill in, sample, reconstruct, evaluate."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mmdgm import evaluation, sampling
from mmdgm.data.batches import Batch, hidden, resident
from mmdgm.data.dataset import UNKNOWN, Column, Dataset, Schema
from mmdgm.data.missing import fitted_mask
from mmdgm.embedding import Embedding, embed
from mmdgm.errors import InputError, unknown
from mmdgm.filling import Filled, fill_rows
from mmdgm.imputation import Imputer
from mmdgm.model import MaxMarginDGM
from mmdgm.recipes import Recipe
from mmdgm.runs import RunFolder
from mmdgm.runtime import Runtime


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

    def sample(self, n: int, seed: int = 0, draw: bool = False, label: str | None = None) -> NDArray[np.float32]:
        """`n` new rows (see `mmdgm.sampling`), of one class if the model is conditional and `label` names it."""
        return sampling.sample(self.model, n, seed, draw, None if label is None else self._class(label))

    def _class(self, label: str) -> int:
        if not self.recipe.conditional:
            raise InputError(
                f"recipe '{self.recipe.name}' is not conditional: it cannot draw from one class. Train it with "
                "conditional=true and C=0, or leave the class out."
            )
        if label not in self.classes:
            raise unknown("class", label, self.classes)
        return self.classes.index(label)

    def transform(self, x: NDArray[Any], what: Embedding = "features") -> NDArray[np.float32]:
        """What the classifier reads of every row (features), or the mean of z (latents)."""
        return embed(self.model, self._rows(x), what)

    def reconstruct(self, x: NDArray[Any], seed: int = 0) -> NDArray[np.float32]:
        """Rows as the model sees them."""
        return sampling.reconstruct(self.model, self._rows(x), seed)

    def impute(
        self,
        x: NDArray[Any],
        mask: NDArray[np.bool_] | None = None,
        seed: int = 0,
        runtime: Runtime | None = None,
        on_progress: Callable[[int, int], None] = lambda _done, _of: None,
        **how: Any,
    ) -> Filled:
        """Fill in what is NaN in x, or where `mask` is true; what is observed comes back to the bit.

        `how` is a method, steps, burn_in, chains or copies (see `mmdgm.imputation.Imputer`).
        """
        x = np.asarray(x)
        rows = self._rows(x)
        if mask is not None:
            rows = hidden(rows, fitted_mask(np.asarray(mask), len(x), self.schema, "mask"), self.schema)
        return fill_rows(self.model, x, rows, Imputer.for_model(self.model, **how), seed, runtime, on_progress)

    def evaluate(self, dataset: Dataset, name: str = "given rows", **how: Any) -> evaluation.Evaluation:
        """All the figures on some rows (see `mmdgm.evaluation.evaluate`)."""
        aligned = self.aligned(dataset)
        return evaluation.evaluate(self.model, resident(aligned, self.device), self.classes, split=name, **how)

    def aligned(self, dataset: Dataset) -> Dataset:
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
        if self.recipe.classifies and dataset.classes and not set(dataset.classes) & set(codes):
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
        return resident(Dataset("rows", values, y, self.classes, self.schema), self.device)

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
        if not self.recipe.classifies:
            raise InputError(f"recipe '{self.recipe.name}' was trained without labels (C=0): it cannot classify.")

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device


def _described(schema: Schema) -> str:
    if schema.image_shape is not None:
        return " x ".join(map(str, schema.image_shape)) + " images"
    return f"{len(schema.columns)} columns ({', '.join(c.name for c in schema.columns[:5])}, ...)"


def _as_column(values: NDArray[Any], theirs: Column, mine: Column, data: str) -> NDArray[Any]:
    """A column of other data as the run knows it; a file's own kind was guessed from the few values that it holds."""
    if mine.kind == "categorical" and theirs.kind == "categorical":
        return _recoded(values, theirs.levels, mine.levels)
    if np.isnan(values).all():  # a column of holes has no kind of its own
        return values
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

"""Which rows are for training, which for choosing, and which are looked at once."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.dataset import Dataset
from mmdgm.errors import InputError

SplitName = Literal["train", "valid", "test"]
Split = Literal["paper", "whole"]

_VALID_SHARE = {"paper": 1 / 6, "whole": 0.0}  # of the training rows, where nothing is official
_TEST_SHARE = 0.2


@dataclass(frozen=True)
class Splits:
    """The three parts, under one schema that was fitted on the training rows alone."""

    train: Dataset
    valid: Dataset
    test: Dataset

    def part(self, name: SplitName) -> Dataset:
        """One part by its name; it must have rows."""
        part = {"train": self.train, "valid": self.valid, "test": self.test}[name]
        if not len(part):
            raise InputError(
                f"--split {name} has no rows: the recipe trains on the whole training set (split=whole), or the data "
                "are too few. Use --split test, or train with --set split=paper."
            )
        return part


def split(dataset: Dataset, how: Split, seed: int) -> Splits:
    """The paper's split, which holds some of the training rows back for validation, or the whole training set.

    A set with an official test part keeps it, and the rows before it are for validation, as in the paper. Any other
    set is split by the seed, class by class: a fifth for testing, a sixth of the rest for validation.
    """
    if dataset.official_test:
        end = len(dataset) - dataset.official_test
        middle = end - dataset.official_valid if how == "paper" else end
        parts = [dataset.take(slice(*ends)) for ends in ((0, middle), (middle, end), (end, len(dataset)))]
    else:
        rng = np.random.default_rng([seed, 20151207])
        learning, test = stratified(np.arange(len(dataset)), dataset.y, _TEST_SHARE, rng)
        train, valid = stratified(learning, dataset.y, _VALID_SHARE[how], rng)
        parts = [dataset.take(rows) for rows in (train, valid, test)]
    if not len(parts[0]) or not len(parts[2]):
        raise InputError(f"data '{dataset.name}' has {len(dataset)} rows; a training and a test part need more.")
    schema = dataset.schema.fitted(parts[0].x)
    return Splits(*(replace(part, schema=schema) for part in parts))


def stratified(
    rows: NDArray[np.int64], y: NDArray[np.int64], share: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Two disjoint parts of `rows`; the second has `share` of the rows, and of every class (and of the unlabelled).

    What is left after whole rows goes to the classes with the largest remainders, so that rare ones count, too.
    """
    groups = [rng.permutation(rows[y[rows] == label]) for label in np.unique(y[rows])]
    wanted = np.array([share * len(group) for group in groups])
    counts = np.floor(wanted + 1e-9).astype(int)
    left = round(share * len(rows)) - counts.sum()
    counts[np.argsort(counts - wanted, kind="stable")[:left]] += 1
    second = [group[:count] for group, count in zip(groups, counts, strict=True)]
    held = np.sort(np.concatenate(second)) if second else rows[:0]
    return np.setdiff1d(rows, held), held

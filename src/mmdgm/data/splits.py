"""Which rows are for training, which for choosing, and which are looked at once."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.dataset import Dataset
from mmdgm.errors import InputError

SplitName = Literal["train", "valid", "test"]
Split = Literal["paper", "whole"]

_VALID_SHARE = {"paper": 1 / 6, "whole": 0.0}  # of the training rows; the paper holds 10,000 of 60,000 back
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
                f"--split {name} has no rows: the recipe trains on the whole training set (split=whole). "
                "Use --split test, or train with --set split=paper."
            )
        return part


def split(dataset: Dataset, how: Split, seed: int) -> Splits:
    """The paper's split (a sixth of the training rows for validation) or the whole training set.

    A set with an official test part keeps it, and keeps its last training rows for validation, as the paper
    does. Any other set is split by the seed, class by class.
    """
    rows = np.arange(len(dataset))
    share = _VALID_SHARE[how]
    if dataset.official_test:
        learning, test = np.split(rows, [len(rows) - dataset.official_test])
        train, valid = np.split(learning, [len(learning) - round(share * len(learning))])
    else:
        rng = np.random.default_rng([seed, 20151207])
        learning, test = _stratified(rows, dataset.y, _TEST_SHARE, rng)
        train, valid = _stratified(learning, dataset.y, share, rng)
    if not len(train) or not len(test):
        raise InputError(f"data '{dataset.name}' has {len(rows)} rows; a training and a test part need more.")
    schema = dataset.schema.fitted(dataset.x[train])
    parts = (replace(dataset.take(part), schema=schema) for part in (train, valid, test))
    return Splits(*parts)


def _stratified(
    rows: NDArray[np.int64], y: NDArray[np.int64], share: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Two disjoint parts of `rows`; the second has about `share` of every class (and of the unlabelled)."""
    second = [
        rng.permutation(members)[: round(share * len(members))]
        for members in (rows[y[rows] == label] for label in np.unique(y[rows]))
    ]
    held = np.sort(np.concatenate(second)) if second else rows[:0]
    return np.setdiff1d(rows, held), held

"""Training, and what is learned from rows that were held out: the temperature of the probabilities, the best epoch.

Where a tenth of the rows is missed, the model is trained twice: without the rows that are held out, to find the
temperature, and then with all of them. Many rows are trained on once, without the held-out ones.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mmdgm.calibration import temperature
from mmdgm.data.batches import Batch, resident, values
from mmdgm.data.dataset import UNKNOWN, Dataset
from mmdgm.data.splits import Splits, stratified
from mmdgm.data.weights import places
from mmdgm.evaluation import decision_values
from mmdgm.model import MaxMarginDGM
from mmdgm.novelty import Regret, Typical
from mmdgm.optimisation import build_optimiser
from mmdgm.recipes import Recipe
from mmdgm.runtime import Runtime
from mmdgm.sampling import ClassLatents, class_latents
from mmdgm.training import Progress, State, Trainer

MANY_ROWS = 1000
"""From here on a held-out share is not missed."""
_TYPICAL_ROWS = 500
"""Training rows that say what is typical."""


@dataclass(frozen=True)
class How:
    """How a model is trained, beside its recipe."""

    recipe: Recipe
    runtime: Runtime
    seed: int
    held_share: float
    early_stopping: bool
    patience: int
    on_progress: Callable[[Progress], None]


@dataclass
class Learned:
    """What training came to. The states are kept for a later call that goes on from them, if there may be one."""

    model: MaxMarginDGM
    temperature: float
    epochs: int
    class_latents: ClassLatents
    typical: Typical
    state: State | None
    trial: State | None


def learn(rows: Dataset, how: How, before: Learned | None = None) -> Learned:
    """Train on rows (merged, see `mmdgm.data.weights`), from the start or from where another training ended."""
    rest, held = hold_out(rows, how)
    last, previous = (None, None) if before is None else (before.state, before.trial)
    trial = None
    if how.early_stopping:
        state = _trained(rest, how, last, held)
        found = _temperature(state, held, how)
    elif not len(held) or len(rows) >= MANY_ROWS:
        state = _trained(rest, how, last)
        found = _temperature(state, held, how)
    else:
        trial = _trained(rest, how, previous or last)
        found = _temperature(trial, held, how)
        state = _trained(rows, how, last)
    model = for_use(state, how.runtime)
    seen = batch_for(model, rows)
    some = np.random.default_rng([how.seed, 2]).permutation(len(rows))[:_TYPICAL_ROWS]
    typical = Typical.fitted(model, batch_for(model, rows.take(some)), Regret(), how.seed)
    weights = torch.from_numpy(_weights(rows)).to(seen.x)
    if found is None:
        found = how.recipe.margin if before is None else before.temperature
    return Learned(model, found, state.epoch, class_latents(model, seen, weights), typical, state, trial)


def hold_out(rows: Dataset, how: How) -> tuple[Dataset, Dataset]:
    """Rows to train on and rows held out: with labels if there are classes, and never the last one of its class.

    A column must have an observed value among the rest; a row that is the only one to have it goes back.
    """
    nobody = rows.take(np.arange(0))
    if not (how.recipe.classifies or how.early_stopping):
        return rows, nobody
    may = np.arange(len(rows))
    if how.recipe.classifies:
        count = np.bincount(rows.y[rows.y != UNKNOWN], minlength=len(rows.classes))
        may = np.flatnonzero((rows.y != UNKNOWN) & (count[rows.y] > 1))
    _, held = stratified(may, rows.y, how.held_share, np.random.default_rng([how.seed, 1]))
    if rows.x.dtype != np.uint8:
        held = _without_the_only_ones(rows, held)
    rest = np.setdiff1d(np.arange(len(rows)), held)
    return (rows.take(rest), rows.take(held)) if len(rest) and len(held) else (rows, nobody)


def _without_the_only_ones(rows: Dataset, held: Any) -> Any:
    observed = ~np.isnan(rows.x)
    rest = np.ones(len(rows), dtype=bool)
    rest[held] = False
    only = ~observed[rest].any(axis=0) & observed.any(axis=0)
    return held[~observed[held][:, only].any(axis=1)]


def _trained(rows: Dataset, how: How, before: State | None, held: Dataset | None = None) -> State:
    """A state whose best weights are the last ones or, with rows held out, those of the best look at them."""
    recipe = how.recipe
    size = min(recipe.batch_size, places(_weights(rows)))
    recipe = replace(recipe, batch_size=size)
    if held is not None and len(held):
        recipe = replace(recipe, split="paper", select="best")
    empty = rows.take(np.arange(0))
    splits = Splits(rows, empty if held is None else held, empty)
    patience = _Patience(how.patience)
    trainer = Trainer(
        recipe, splits, how.seed, how.runtime, None, how.on_progress, patience.is_over, patience.look, before=before
    )
    trainer.run()
    return trainer.state


class _Patience:
    """Ends a training after so many looks at held-out rows without a better one."""

    def __init__(self, looks: int) -> None:
        self.looks, self.best, self.since = looks, float("inf"), 0

    def look(self, line: dict[str, Any]) -> None:
        """A line of metrics; it has validation figures if this epoch had a look."""
        if "valid_error_percent" in line:
            value = line["valid_error_percent"]
        elif "valid_bound_nats" in line:
            value = -line["valid_bound_nats"]
        else:
            return
        self.since = 0 if value < self.best else self.since + 1
        self.best = min(self.best, value)

    def is_over(self) -> bool:
        """Whether it is time to end."""
        return self.since >= self.looks


def _temperature(state: State, held: Dataset, how: How) -> float | None:
    """Of the probabilities, from rows that this state has not seen; nothing without such rows or without classes."""
    if not how.recipe.classifies or not len(held):
        return None
    model = for_use(state, how.runtime)
    with torch.no_grad():
        scores = decision_values(model, batch_for(model, held)).double().cpu().numpy()
    return temperature(scores, held.y, _weights(held))


def _weights(rows: Dataset) -> Any:
    assert rows.weights is not None
    return rows.weights


def for_use(state: State, runtime: Runtime) -> MaxMarginDGM:
    """The model with its best weights, in double precision wherever there is one.

    In double precision the figures of a row are the same whatever rows are beside it, to all digits that anyone
    compares.
    """
    model = copy.deepcopy(state.current)
    model.load_state_dict(state.best)
    model.requires_grad_(False).eval()
    return model if runtime.torch_device.type == "mps" else model.double()


def batch_for(model: MaxMarginDGM, rows: Dataset) -> Batch:
    """Rows in the precision of the model, on its device."""
    like = model.classifier.linear.weight
    batch = resident(rows, like.device)
    return batch._replace(x=values(batch.x).to(like.dtype))


def state_of(model: MaxMarginDGM) -> State:
    """A state to go on from, for a model without one: an optimiser that has not moved yet."""
    own = copy.deepcopy(model).float().requires_grad_(True)
    return State(own, build_optimiser(own, own.recipe), None, best=copy.deepcopy(own.state_dict()))


@contextmanager
def using_threads(count: int | None) -> Iterator[None]:
    """So many threads for torch's operations; afterwards as many as before."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def codes(classes: Any, device: torch.device) -> Tensor:
    """Class codes as a tensor."""
    return torch.as_tensor(np.asarray(classes, dtype=np.int64), device=device)

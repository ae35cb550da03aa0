"""Training: the doubly stochastic subgradient algorithm (algorithm 1 of the paper), one step after another.

    repeat
        draw a random mini-batch of m data points          (the first stochasticity)
        draw random samples from the noise distribution    (the second)
        compute the subgradient of the objective's estimate
        update the parameters
    until all epochs are done

Batch order and noise are functions of (seed, epoch, step), so a run that was stopped anywhere goes on bit for
bit as if it had not been.
"""

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from mmdgm.adversary import margins, worst_perturbation
from mmdgm.augmentation import warp
from mmdgm.data.batches import Batch, resident
from mmdgm.data.dataset import UNKNOWN, Dataset, has_holes
from mmdgm.data.splits import Splits
from mmdgm.data.weights import places, rows_in_places
from mmdgm.errors import InputError, WorkError
from mmdgm.evaluation import quick_look
from mmdgm.gradients import Estimate, estimate, observe
from mmdgm.model import MaxMarginDGM, Noise, initialised, visible
from mmdgm.objective import Objective, Terms
from mmdgm.operations import count_layers
from mmdgm.optimisation import Average, build_optimiser, learning_rate
from mmdgm.recipes import Recipe
from mmdgm.runs import RunFolder, Tensors, contiguous, state_tensors
from mmdgm.runtime import Runtime, generator

CHECKPOINT_SECONDS = 30.0
LOOKS_AT_VALIDATION = 50
"""How often a run looks at the validation data, about; each look costs a tenth of an epoch."""

_FACTOR_ROWS = 1000


class MeanTerms(NamedTuple):
    """D, R and H, their means over the epoch so far."""

    distortion: float
    rate: float
    hinge: float


class Progress(NamedTuple):
    """Where a run is, for whoever shows it."""

    epoch: int
    epochs: int
    step: int
    steps: int
    terms: MeanTerms
    seconds: float
    validation: dict[str, float]


@dataclass
class State:
    """All that changes while training; a checkpoint holds it whole."""

    model: MaxMarginDGM
    optimiser: torch.optim.Optimizer
    average: Average | None
    epoch: int = 0
    step: int = 0
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    seconds: float = 0.0
    best_epoch: int = 0
    best_value: float = math.inf
    best: dict[str, Tensor] = field(default_factory=dict)
    validation: dict[str, float] = field(default_factory=dict)

    @property
    def current(self) -> MaxMarginDGM:
        """The model to judge: the averaged one if weights are averaged."""
        return self.average.model if self.average else self.model


class Step:
    """One step of the algorithm on one device; compiled if the runtime says so."""

    def __init__(self, recipe: Recipe, runtime: Runtime, N: int) -> None:
        self.recipe, self.runtime, self.N = recipe, runtime, N
        self.objective = Objective(recipe.C, recipe.margin, recipe.weight_variance, N)
        self._on_cuda = runtime.torch_device.type == "cuda"
        mode = "reduce-overhead" if self._on_cuda else None  # a graph of kernels: small networks need it

        def fast(function: Any) -> Any:
            return torch.compile(function, dynamic=False, mode=mode) if runtime.compile else function

        self._estimate, self._margins = fast(estimate), fast(margins)

    def estimate(self, model: MaxMarginDGM, batch: Batch, noise: Noise, supervised: bool) -> Estimate:
        """The objective's estimate on a batch; before the hinge loss is switched on it has C = 0."""
        objective = self.objective if supervised else replace(self.objective, C=0.0)
        if self._on_cuda and self.runtime.compile:
            torch.compiler.cudagraph_mark_step_begin()
        batch = observe(model, batch, noise)
        with self.runtime.autocast():
            perturbation = None
            if self.recipe.adversary and supervised:
                seen = visible(batch.observed, noise.hidden)
                perturbation = worst_perturbation(model, batch, seen, self.recipe.adversary, self._margins)
            made: Estimate = self._estimate(model, batch, noise, objective, perturbation)
            return made

    def update(self, state: State, number: int, steps: int, made: Estimate) -> None:
        """Follow the gradient of an estimate: step `number` of all `steps`."""
        made.surrogate.backward()
        if self.recipe.clip:  # the baseline's gradient is no part of the model's
            for part in _clipped_apart(state.model):
                torch.nn.utils.clip_grad_norm_(part, self.recipe.clip)
        rate = learning_rate(self.recipe, number, steps, self.N)
        for group in state.optimiser.param_groups:
            group["lr"] = rate
        state.optimiser.step()
        state.optimiser.zero_grad(set_to_none=True)
        if state.average:
            state.average.update(state.model, number, steps)


class Trainer:
    """Trains one recipe on one split, into one run folder or into none."""

    def __init__(
        self,
        recipe: Recipe,
        splits: Splits,
        seed: int,
        runtime: Runtime,
        folder: RunFolder | None = None,
        on_progress: Callable[[Progress], None] = lambda _: None,
        should_stop: Callable[[], bool] = lambda: False,
        on_metrics: Callable[[dict[str, Any]], None] = lambda _: None,
        initial: dict[str, Tensor] | None = None,
        before: State | None = None,
    ) -> None:
        self.recipe, self.seed, self.runtime, self.folder = recipe, seed, runtime, folder
        self.on_progress, self.should_stop, self.on_metrics = on_progress, should_stop, on_metrics
        device = runtime.torch_device
        self.data = resident(splits.train, device)
        self.valid = resident(splits.valid, device) if len(splits.valid) else None
        self.weights = splits.train.weights
        self.N = len(splits.train) if self.weights is None else places(self.weights)
        self.shape = splits.train.schema.image_shape or ()
        self.batch_size = min(recipe.batch_size, self.N)
        self.steps_per_epoch = self.N // self.batch_size
        self.step = Step(recipe, runtime, self.N)
        self._saved = time.monotonic()
        self._check()
        model = build_model(recipe, splits.train, seed)
        if initial:
            start_from(model, initial)
        if recipe.missing == "factors" and before is None:
            _look_for_factors(model, splits.train, seed)
        self.state = self._initial_state(model.to(device))
        if before is not None:
            self._go_on_from(before)

    def run(self) -> State | None:
        """Train to the end and return the state with the chosen weights, or nothing if it was stopped.

        What a folder's checkpoint holds is not done again.
        """
        self._restore()
        if self.state.epoch == self.state.step == 0:
            self._save()
        self._remember_good()
        while self.state.epoch < self.recipe.epochs:
            if not self._epoch():
                self._save()
                return None
            self._remember_good()
        if self.recipe.select == "last":
            self.state.best_epoch = self.recipe.epochs
            self.state.best = _copy(self.state.current)
        return self.state

    def _check(self) -> None:
        """What only the rows can tell of the recipe."""
        if self.recipe.normalise and self.batch_size < 2:
            raise InputError(f"normalise=true needs at least 2 training rows; the data have {self.N}.")
        if self.recipe.select != "best":
            return
        if self.valid is None or (self._by_error and not bool((self.valid.y != UNKNOWN).any())):
            what = "labelled validation rows" if self._by_error else "validation rows"
            raise InputError(f"select=best needs {what}; the data leave none. Use --set select=last, or more rows.")

    def _initial_state(self, model: MaxMarginDGM) -> State:
        average = Average(model, self.recipe.ema) if self.recipe.ema else None
        return State(model, build_optimiser(model, self.recipe), average)

    def _go_on_from(self, before: State) -> None:
        """Start with the weights and the optimiser's moments of a finished training, on rows like these or others."""
        self.state.model.load_state_dict(before.model.state_dict())
        self.state.optimiser.load_state_dict(before.optimiser.state_dict())
        if self.state.average:
            self.state.average.model.load_state_dict(before.current.state_dict())

    def _order(self) -> Tensor:
        """The rows of an epoch, one after another; each as often as it counts (see `mmdgm.data.weights`)."""
        order = torch.randperm(self.N, generator=generator("cpu", self.seed, "order", self.state.epoch))
        if self.weights is not None:
            u = torch.rand(self.N, generator=generator("cpu", self.seed, "places", self.state.epoch)).numpy()
            order = torch.from_numpy(rows_in_places(self.weights, u))[order]
        return order.to(self.data.x.device)

    def _epoch(self) -> bool:
        """The rest of the epoch that the state is in; false if it was stopped on the way."""
        state, began = self.state, time.monotonic()
        order = self._order()
        state.model.train()
        while state.step < self.steps_per_epoch:
            if self.should_stop():
                state.seconds += time.monotonic() - began
                return False
            self._one_step(order)
            state.step += 1
            self._report(began)
            if time.monotonic() - self._saved > CHECKPOINT_SECONDS:
                now = time.monotonic()
                state.seconds, began = state.seconds + now - began, now
                self._save()
        self._close_epoch(began)
        return True

    def _one_step(self, order: Tensor) -> None:
        """Algorithm 1's loop body."""
        state, m = self.state, self.batch_size
        batch = self.data.rows(order[state.step * m : (state.step + 1) * m])
        key = generator(self.data.x.device, self.seed, "noise", state.epoch, state.step)
        if self.recipe.warp:
            batch = warp(batch, self.shape, self.recipe.warp, key)
        noise = state.model.draw_noise(m, key)
        made = self.step.estimate(state.model, batch, noise, self._supervised)
        self._count(made)
        steps = self.recipe.epochs * self.steps_per_epoch
        self.step.update(state, state.epoch * self.steps_per_epoch + state.step, steps, made)

    @property
    def _supervised(self) -> bool:
        return self.state.epoch >= self.recipe.pretraining_epochs

    def _count(self, made: Estimate) -> None:
        """Add the terms to the epoch's sums; a term that is no number stops the run before any update."""
        *terms, surrogate = torch.stack([*made.terms, made.surrogate]).tolist()
        if not math.isfinite(surrogate):
            names = [n for n, value in zip(Terms._fields, terms, strict=True) if not math.isfinite(value)]
            self._give_up(f"the {names[0] if names else 'objective'} is", self.state.epoch, self.state.step)
        self.state.sums = [a + b for a, b in zip(self.state.sums, terms, strict=True)]

    def _check_weights(self) -> None:
        """After the last update of an epoch no loss would tell."""
        judged = [p.detach() for p in (*self.state.model.parameters(), *self.state.current.parameters())]
        if not bool(torch.stack(torch._foreach_norm(judged, math.inf)).isfinite().all()):
            self._give_up("a weight is", self.state.epoch - 1, self.steps_per_epoch - 1)

    def _remember_good(self) -> None:
        """The state after the last whole epoch, for the folder of a run that fails; small epochs feel what it costs."""
        if self.folder:
            self._good = self._snapshot()

    def _give_up(self, what: str, epoch: int, step: int) -> None:
        kept = ""
        if self.folder:
            self.folder.save_checkpoint(*self._good)
            kept = f" The weights after epoch {self._good[2]['epoch']} are kept in '{self.folder.path}'."
        raise WorkError(
            f"{what} not a finite number at epoch {epoch + 1}, step {step + 1}. Try a smaller learning_rate, clip=1, "
            f"or float32.{kept}"
        )

    def _report(self, began: float) -> None:
        state = self.state
        means = MeanTerms(*(s / state.step for s in state.sums))
        seconds = state.seconds + time.monotonic() - began
        self.on_progress(
            Progress(
                state.epoch,
                self.recipe.epochs,
                state.step,
                self.steps_per_epoch,
                means,
                seconds,
                state.validation,
            )
        )

    def _close_epoch(self, began: float) -> None:
        """Write the epoch's metrics, look at the validation data now and then, and keep the best weights."""
        state = self.state
        state.epoch += 1
        self._check_weights()
        means = MeanTerms(*(s / self.steps_per_epoch for s in state.sums))
        line: dict[str, Any] = {"epoch": state.epoch, **means._asdict()}
        every = max(1, self.recipe.epochs // LOOKS_AT_VALIDATION)
        if self.valid is not None and (state.epoch % every == 0 or state.epoch == self.recipe.epochs):
            state.validation = quick_look(state.current, self.valid, self.runtime, self.seed)
            for name, value in state.validation.items():
                if not math.isfinite(value):
                    self._give_up(f"{name} is", state.epoch - 1, self.steps_per_epoch - 1)
            line.update(state.validation)
            self._keep_best()
        state.seconds += time.monotonic() - began
        line["seconds"] = round(state.seconds, 3)
        state.step, state.sums = 0, [0.0, 0.0, 0.0]
        if self.folder:
            self.folder.append_metrics(line)
        self.on_metrics(line)

    @property
    def _by_error(self) -> bool:
        return self.recipe.classifies

    def _keep_best(self) -> None:
        if self.recipe.select != "best" or self.state.epoch <= self.recipe.pretraining_epochs:
            return
        found = self.state.validation
        value = found["valid_error_percent"] if self._by_error else -found["valid_bound_nats"]
        if value < self.state.best_value:
            self.state.best_value, self.state.best_epoch = value, self.state.epoch
            self.state.best = _copy(self.state.current)

    def _save(self) -> None:
        if self.folder:
            self.folder.save_checkpoint(*self._snapshot())
        self._saved = time.monotonic()

    def _snapshot(self) -> tuple[int, Tensors, dict[str, Any]]:
        """The state as a checkpoint holds it: its number, tensors (copied) and values."""
        state = self.state
        tensors = state_tensors("model.", state.model.state_dict()) | state_tensors("best.", state.best)
        if state.average:
            tensors |= state_tensors("average.", state.average.model.state_dict())
        for index, moments in state.optimiser.state_dict()["state"].items():
            tensors |= state_tensors(f"optimiser.{index}.", moments)
        values = {
            "epoch": state.epoch,
            "step": state.step,
            "sums": state.sums,
            "seconds": state.seconds,
            "best_epoch": state.best_epoch,
            "best_value": None if math.isinf(state.best_value) else state.best_value,
            "validation": state.validation,
        }
        return state.epoch * self.steps_per_epoch + state.step, contiguous(tensors), values

    def _restore(self) -> None:
        stored = self.folder.load_checkpoint() if self.folder else None
        if self.folder is None or stored is None:
            return
        tensors, values = stored
        state = self.state

        def under(prefix: str) -> dict[str, Tensor]:
            return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

        state.model.load_state_dict(under("model."))
        if state.average:
            state.average.model.load_state_dict(under("average."))
        state.best = under("best.")
        whole = state.optimiser.state_dict()
        for name, value in under("optimiser.").items():
            index, _, moment = name.partition(".")
            whole["state"].setdefault(int(index), {})[moment] = value
        state.optimiser.load_state_dict(whole)
        state.epoch, state.step, state.sums = values["epoch"], values["step"], values["sums"]
        state.seconds, state.validation = values["seconds"], values["validation"]
        state.best_epoch = values["best_epoch"]
        state.best_value = math.inf if values["best_value"] is None else values["best_value"]
        self.folder.forget_uncounted_metrics()


def build_model(recipe: Recipe, train: Dataset, seed: int) -> MaxMarginDGM:
    """The model for these rows with its initial weights; what the recipe needs of the rows must be there."""
    if recipe.classifies and len(train.classes) == 1:
        raise InputError(f"recipe '{recipe.name}' needs two or more classes; the data have only '{train.classes[0]}'.")
    if recipe.warp and (train.schema.image_shape is None or has_holes(train)):
        raise InputError("warp is for images without holes; use --set warp=0 for other data.")
    empty = [c.name for i, c in enumerate(train.schema.columns) if np.isnan(train.x[:, i]).all()]
    if empty:
        raise InputError(f"column '{empty[0]}' has no observed value in the training rows; leave it out of the data.")
    if recipe.C > 0 and not len(train.classes):
        raise InputError(f"recipe '{recipe.name}' has C={recipe.C:g} and needs labels; the data have none. Set C=0.")
    if recipe.conditional and (not train.classes or (train.y == UNKNOWN).any()):
        raise InputError(f"recipe '{recipe.name}' is conditional and needs a label for every training row.")
    model = initialised(recipe, train.schema, len(train.classes), seed)
    if model.recognition.fill is not None:
        model.recognition.fill.copy_(_mean_of_observed(model, train))
    return model


@torch.no_grad()
def _mean_of_observed(model: MaxMarginDGM, train: Dataset) -> Tensor:
    """The mean of every entry over the rows where it is observed, as the networks see it."""
    total, count = torch.zeros(train.schema.width).double(), torch.zeros(train.schema.width).double()
    for start in range(0, len(train), 5000):
        rows = model.prepared(resident(train.take(slice(start, start + 5000)), torch.device("cpu")))
        total += (rows.x * rows.observed).double().sum(0)
        count += rows.observed.double().sum(0)
    return (total / count.clamp(min=1)).float()


def _look_for_factors(model: MaxMarginDGM, train: Dataset, seed: int) -> None:
    """Start from factor analysis of the rows, or of some if there are many: they say as much of so few numbers."""
    some = np.random.default_rng([seed, 3]).permutation(len(train))[:_FACTOR_ROWS]
    rows = train.take(np.sort(some))
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    model.start_from_factors(resident(rows, torch.device("cpu")), torch.from_numpy(weights))


def start_from(model: MaxMarginDGM, weights: dict[str, Tensor]) -> None:
    """Let the recognition network start with weights of another run; all of its layers must be there and fit."""
    prefix = "recognition.network."
    own = model.recognition.network.state_dict()
    given = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
    for name, value in own.items():
        if name not in given or given[name].shape != value.shape:
            there = tuple(given[name].shape) if name in given else "nothing"
            raise InputError(
                f"--init-from: the recognition network needs weights of shape {tuple(value.shape)} for '{name}'; that "
                f"run has {there}. Start from a run with the same convolutions, hidden layers and normalise."
            )
    model.recognition.network.load_state_dict({name: given[name] for name in own})


def operations(recipe: Recipe, splits: Splits) -> float:
    """About how many floating-point operations a run takes."""
    of_an_example = sum(layer.operations for layer in count_layers(build_model(recipe, splits.train, 0)))
    return of_an_example * recipe.samples * len(splits.train) * recipe.epochs


def _clipped_apart(model: MaxMarginDGM) -> list[list[nn.Parameter]]:
    baseline = [] if model.baseline is None else list(model.baseline.parameters())
    rest = [p for p in model.parameters() if all(p is not b for b in baseline)]
    return [rest, baseline] if baseline else [rest]


def _copy(model: MaxMarginDGM) -> dict[str, Tensor]:
    return copy.deepcopy(model.state_dict())

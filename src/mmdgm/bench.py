"""How fast training is, as ratios within one run: against the matrix rate, and against a plain loop.

The three things are measured in turns, so that a machine that slows down slows all of them. The plain loop is
what one would write first: float32, a `DataLoader`, torch's own layers and optimiser, nothing compiled.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from mmdgm.data.dataset import Dataset, Schema
from mmdgm.data.splits import Splits
from mmdgm.recipes import Recipe, changed, recipe_named
from mmdgm.runtime import Runtime, choose_runtime, keep_freed_memory, machine, versions
from mmdgm.training import Trainer

_ROWS = 10_000
_ROUNDS = 5


def bench_training(
    name: str, batch_size: int, seconds: float, device: str | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """The speeds of a recipe's objective on its networks, without the adversary (see `_plain_recipe`)."""
    keep_freed_memory()
    runtime = choose_runtime(device, compile=True)
    recipe = _plain_recipe(changed(recipe_named(name), [f"batch_size={batch_size}"]))
    trainer = Trainer(recipe, _made_up(), 0, runtime)
    say("compiling and warming up")
    order = torch.randperm(trainer.N)

    def ours() -> int:
        trainer.state.step = (trainer.state.step + 1) % trainer.steps_per_epoch
        trainer._one_step(order)
        return batch_size

    plain = _PlainLoop(recipe, runtime.torch_device)
    product = _Product(runtime)
    tasks: dict[str, Callable[[], int]] = {"ours": ours, "plain": plain.step, "product": product.run}
    rates: dict[str, list[float]] = {key: [] for key in tasks}
    for task in tasks.values():
        _rate(task, 2.0, runtime)
    for number in range(_ROUNDS):
        say(f"round {number + 1} of {_ROUNDS}")
        for key, task in tasks.items():
            rates[key].append(_rate(task, seconds / _ROUNDS, runtime))
    return _report(recipe, trainer, runtime, {key: statistics.median(r) for key, r in rates.items()})


def _plain_recipe(recipe: Recipe) -> Recipe:
    """The objective without what a plain loop has not: adversary, dropout, averaged weights."""
    settings = ["adversary=0", "dropout=0", "input_dropout=0", "feature_dropout=0", "ema=0", "warp=0"]
    return changed(recipe, [*settings, "pretraining_epochs=0", "select=last", "split=paper"])


def _report(recipe: Recipe, trainer: Trainer, runtime: Runtime, rates: dict[str, float]) -> dict[str, Any]:
    operations = step_operations(trainer)
    achieved = operations * rates["ours"] / 1e9
    return {
        "recipe": recipe.name,
        "batch_size": recipe.batch_size,
        "device": runtime.device,
        "precision": runtime.precision,
        "examples_per_second": rates["ours"],
        "plain_examples_per_second": rates["plain"],
        "times_the_plain_loop": rates["ours"] / rates["plain"],
        "matrix_operations_per_example": operations,
        "gflops_achieved": achieved,
        "gflops_of_a_matrix_product": rates["product"] / 1e9,
        "share_of_the_matrix_rate_percent": 100 * achieved / (rates["product"] / 1e9),
        "versions": versions(),
        "machine": machine(runtime.device),
    }


def step_operations(trainer: Trainer) -> float:
    """Operations of the matrix products of a step, for each example: forward, and two backward.

    The first layer needs no gradient of its input, and so one product less. Nothing else is counted.
    """
    model = trainer.state.model
    weights = sum(m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear))
    first = model.recognition.network.layers[0].weight
    assert isinstance(first, Tensor)
    return 2.0 * (3 * weights - first.numel())


def _rate(task: Callable[[], int], seconds: float, runtime: Runtime) -> float:
    """What `task` returns, per second."""
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        done += task()
        if runtime.device.startswith("cuda"):
            torch.cuda.synchronize()
    return done / (time.perf_counter() - began)


def _made_up() -> Splits:
    """Rows of MNIST's shape; speed does not depend on what they show."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (_ROWS, 28, 28), dtype=np.uint8)
    y = rng.integers(0, 10, _ROWS)
    whole = Dataset("made up", x, y, tuple("0123456789"), Schema(image_shape=(28, 28)))
    return Splits(whole, whole.take(slice(0, 0)), whole.take(slice(0, 0)))


class _Product:
    """A large square matrix product in the precision of training: the ceiling."""

    def __init__(self, runtime: Runtime) -> None:
        size = 8192 if runtime.device.startswith("cuda") else 2048
        kind = torch.bfloat16 if runtime.precision == "bf16" else torch.float32
        self.a = torch.randn(size, size, device=runtime.torch_device).to(kind)
        self.b = torch.randn(size, size, device=runtime.torch_device).to(kind)
        self.out = torch.empty_like(self.a)

    def run(self) -> int:
        """One product; returns its operations."""
        torch.mm(self.a, self.b, out=self.out)
        return 2 * len(self.a) ** 3


class _PlainLoop(nn.Module):
    """The same networks and objective as one would write them first, fed by a `DataLoader`."""

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        super().__init__()
        self.recipe, self.device = recipe, device
        activation = {"softplus": nn.Softplus, "relu": nn.ReLU, "silu": nn.SiLU, "tanh": nn.Tanh}[recipe.activation]
        h1, h2 = recipe.hidden
        K = recipe.latent_size
        self.first = nn.Sequential(nn.Linear(784, h1), activation())
        self.second = nn.Sequential(nn.Linear(h1, h2), activation())
        self.mu, self.log_variance = nn.Linear(h2, K), nn.Linear(h2, K)
        layers = [nn.Linear(K, h2), activation(), nn.Linear(h2, h1), activation(), nn.Linear(h1, 784)]
        self.decoder = nn.Sequential(*layers)
        self.classifier = nn.Linear(h1 + h2, 10)
        self.to(device)
        splits = _made_up()
        rows = TensorDataset(
            torch.from_numpy(splits.train.x.reshape(_ROWS, 784)).float() / 255,
            torch.from_numpy(splits.train.y),
        )
        self.loader = DataLoader(rows, batch_size=recipe.batch_size, shuffle=True, drop_last=True)
        self.batches = iter(self.loader)
        self.optimiser = torch.optim.Adam(self.parameters(), lr=1e-3)

    def step(self) -> int:
        """One step; returns its examples."""
        try:
            x, y = next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            x, y = next(self.batches)
        loss = self._loss(x.to(self.device), y.to(self.device))
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return len(x)

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        if self.recipe.likelihood == "bernoulli-binarised":
            x = torch.bernoulli(x)
        h1 = self.first(x)
        h2 = self.second(h1)
        mu, log_variance = self.mu(h2), self.log_variance(h2)
        logits = self.decoder(mu + (0.5 * log_variance).exp() * torch.randn_like(mu))
        bound = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
        bound = bound + 0.5 * (mu**2 + log_variance.exp() - 1 - log_variance).sum() / len(x)
        scores = self.classifier(torch.cat([h1, h2], dim=1))
        truth = F.one_hot(y, 10)
        hinge = (scores + self.recipe.margin * (1 - truth)).max(1).values - (scores * truth).sum(1)
        loss: Tensor = bound + self.recipe.C * hinge.mean()
        return loss

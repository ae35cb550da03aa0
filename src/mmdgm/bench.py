"""How fast training is, as ratios within one run: against the machine's ceiling, and against a plain loop.

The ceiling is a large matrix product, or for convolutional networks a 3 x 3 convolution, in the precision of
training. The three things are measured in turns, so that a machine that slows down slows all of them.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from mmdgm.data.dataset import Dataset, Schema
from mmdgm.data.splits import Splits
from mmdgm.errors import InputError
from mmdgm.operations import CountedLayer, count_layers
from mmdgm.plain_loop import PlainLoop
from mmdgm.recipes import Recipe, changed, recipe_named
from mmdgm.runtime import Runtime, choose_runtime, keep_freed_memory, machine, versions
from mmdgm.training import Trainer

ROUNDS = 5


def bench_training(
    name: str, batch_size: int, seconds: float, device: str | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """The speeds of a recipe's objective on its networks, without what a plain loop has not (see `_plain_recipe`)."""
    keep_freed_memory()
    runtime = choose_runtime(device, compile=True)
    recipe = _plain_recipe(changed(recipe_named(name), [f"batch_size={batch_size}"]))
    data = made_up(recipe, 20 * batch_size)
    trainer = Trainer(recipe, Splits(data, data.take(slice(0, 0)), data.take(slice(0, 0))), 0, runtime)
    say("compiling and warming up")
    order = torch.randperm(trainer.N).to(trainer.data.x.device)

    def ours() -> int:
        trainer.state.step = (trainer.state.step + 1) % trainer.steps_per_epoch
        trainer._one_step(order)
        return batch_size

    height, width, *channels = data.schema.image_shape or (1, 1)
    plain = PlainLoop(recipe, data, (channels[0] if channels else 1, height, width), runtime.torch_device)
    ceiling: Callable[[], int] = Convolution(runtime) if recipe.convolutions else Product(runtime)
    tasks: dict[str, Callable[[], int]] = {"ours": ours, "plain": plain.step, "ceiling": ceiling}
    rates: dict[str, list[float]] = {key: [] for key in tasks}
    for task in tasks.values():
        rate(task, 2.0, runtime)
    for number in range(ROUNDS):
        say(f"round {number + 1} of {ROUNDS}")
        for key, task in tasks.items():
            rates[key].append(rate(task, seconds / ROUNDS, runtime))
    layers = count_layers(trainer.state.model)
    found = _report(recipe, layers, runtime, {key: statistics.median(r) for key, r in rates.items()})
    if recipe.convolutions:
        say("layer by layer")
        found["layers"] = [_time_layer(layer, batch_size, runtime) for layer in layers]
    return found


def _plain_recipe(recipe: Recipe) -> Recipe:
    """The objective without what a plain loop has not: adversary, dropout, averaged weights."""
    if not recipe.bound or not recipe.C:
        raise InputError(f"bench needs a recipe with a bound and a hinge loss; '{recipe.name}' lacks one of them.")
    if recipe.likelihood == "columns" or recipe.estimator == "score":
        raise InputError(f"bench needs a recipe for images, with reparameterised gradients; got '{recipe.name}'.")
    settings = ["adversary=0", "dropout=0", "input_dropout=0", "feature_dropout=0", "convolution_dropout=0", "ema=0"]
    return changed(recipe, [*settings, "warp=0", "pretraining_epochs=0", "select=last", "split=paper"])


def _report(recipe: Recipe, layers: list[CountedLayer], runtime: Runtime, rates: dict[str, float]) -> dict[str, Any]:
    done, nominal = sum(layer.operations for layer in layers), sum(layer.nominal for layer in layers)
    kind = "3x3_convolution" if recipe.convolutions else "matrix_product"
    achieved, ceiling = nominal * rates["ours"] / 1e9, rates["ceiling"] / 1e9
    return {
        "recipe": recipe.name,
        "batch_size": recipe.batch_size,
        "device": runtime.device,
        "precision": runtime.precision,
        "examples_per_second": rates["ours"],
        "plain_examples_per_second": rates["plain"],
        "times_the_plain_loop": rates["ours"] / rates["plain"],
        "operations_per_example": nominal,
        "operations_per_example_without_zeros": done,
        "gflops_achieved": achieved,
        f"gflops_of_a_{kind}": ceiling,
        f"share_of_the_{kind}_percent": 100 * achieved / ceiling,
        f"share_of_the_{kind}_percent_without_zeros": 100 * achieved / ceiling * done / nominal,
        "versions": versions(),
        "machine": machine(runtime.device),
    }


def _time_layer(layer: CountedLayer, batch_size: int, runtime: Runtime) -> dict[str, Any]:
    """Forward and backward of one layer alone, compiled as in training."""
    kind = torch.bfloat16 if runtime.precision == "bf16" else torch.float32
    x = torch.randn(batch_size, *layer.shape, device=runtime.torch_device).to(kind)
    if x.ndim == 4:
        x = x.to(memory_format=torch.channels_last)
    x.requires_grad_(not layer.first)
    run = torch.compile(layer.module, dynamic=False) if runtime.compile else layer.module
    with runtime.autocast():
        gradient = torch.randn_like(run(x))

    def task() -> int:
        with runtime.autocast():
            made = run(x)
        made.backward(gradient)
        x.grad = None
        return 1

    rate(task, 0.1, runtime)
    milliseconds = 1e3 / rate(task, 0.5, runtime)
    return {
        "layer": layer.name,
        "milliseconds": round(milliseconds, 3),
        "gflops": round(layer.nominal * batch_size / milliseconds / 1e6, 1),
    }


def rate(task: Callable[[], int], seconds: float, runtime: Runtime) -> float:
    """What `task` returns, per second."""
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        done += task()
        if runtime.device.startswith("cuda"):
            torch.cuda.synchronize()
    return done / (time.perf_counter() - began)


def made_up(recipe: Recipe, rows: int) -> Dataset:
    """Rows of MNIST's or SVHN's shape; speed does not depend on what they show."""
    rng = np.random.default_rng(0)
    shape = (32, 32, 3) if recipe.data.startswith("svhn") else (28, 28)
    x = rng.integers(0, 256, (rows, *shape), dtype=np.uint8)
    return Dataset("made up", x, rng.integers(0, 10, rows), tuple("0123456789"), Schema(image_shape=shape))


class Product:
    """A large square matrix product in the precision of training."""

    def __init__(self, runtime: Runtime) -> None:
        size = 8192 if runtime.device.startswith("cuda") else 2048
        kind = torch.bfloat16 if runtime.precision == "bf16" else torch.float32
        self.a = torch.randn(size, size, device=runtime.torch_device).to(kind)
        self.b = torch.randn(size, size, device=runtime.torch_device).to(kind)
        self.out = torch.empty_like(self.a)

    def __call__(self) -> int:
        """One product; returns its operations."""
        torch.mm(self.a, self.b, out=self.out)
        return 2 * len(self.a) ** 3


class Convolution:
    """A 3 x 3 convolution from 64 to 64 channels in the precision of training, channels last."""

    def __init__(self, runtime: Runtime) -> None:
        kind = torch.bfloat16 if runtime.precision == "bf16" else torch.float32
        last = torch.channels_last
        self.x = torch.randn(128, 64, 28, 28, device=runtime.torch_device).to(kind).contiguous(memory_format=last)
        self.weight = torch.randn(64, 64, 3, 3, device=runtime.torch_device).to(kind).contiguous(memory_format=last)

    @torch.no_grad()
    def __call__(self) -> int:
        """One convolution; returns its operations."""
        F.conv2d(self.x, self.weight, padding=1)
        return 2 * 128 * 28 * 28 * self.weight.numel()

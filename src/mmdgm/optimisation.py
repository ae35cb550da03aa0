"""How a gradient is followed: optimisers, the learning rate over time, and the average of the weights."""

import copy
import math
from typing import Any

import torch
from torch import nn

from mmdgm.model import MaxMarginDGM
from mmdgm.recipes import Recipe


def build_optimiser(model: MaxMarginDGM, recipe: Recipe) -> torch.optim.Optimizer:
    """Adam or SGD. The networks' weight matrices decay; biases do not, and lambda has its prior instead."""
    decaying: list[nn.Parameter] = []
    generative: list[nn.Parameter] = []
    other: list[nn.Parameter] = []
    apart = recipe.generative_weight_decay is not None
    for name, parameter in model.named_parameters():
        matrix = parameter.ndim > 1 and not name.startswith("classifier.")
        own = generative if apart and name.startswith("generative.") else decaying
        (own if matrix else other).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": decaying, "weight_decay": recipe.weight_decay},
        {"params": generative, "weight_decay": recipe.generative_weight_decay},
        {"params": other, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(groups, lr=recipe.learning_rate, fused=True)
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, fused=True)


def learning_rate(recipe: Recipe, step: int, steps: int, N: int) -> float:
    """The rate of step 0 ... steps - 1.

    - constant: the recipe's rate.
    - thirds: constant, then divided by three at ten equal intervals of the rest (the paper's way).
    - cosine: constant, then down to zero along half a cosine.
    - pegasos: 1 / (mu t), where mu = 1 / (sigma^2 N) is how strongly convex J is in lambda; the recipe's
      rate is the highest that it takes.
    """
    if recipe.schedule == "pegasos":
        return min(recipe.learning_rate, recipe.weight_variance * N / (step + 1))
    rise = max(1.0, recipe.warmup_share * steps)
    peak = recipe.learning_rate * min(1.0, (step + 1) / rise)
    begin = max(recipe.constant_share * steps, rise)
    fallen = max(0.0, (step - begin) / max(1.0, steps - begin))
    if recipe.schedule == "thirds":
        return peak * 3.0 ** -math.ceil(10 * fallen) if fallen else peak
    if recipe.schedule == "cosine":
        return peak * 0.5 * (1 + math.cos(math.pi * fallen))
    return peak


class Average:
    """An exponential moving average of the weights (and of batch normalisation's averages).

    It moves every `EVERY` steps, and at the last one, by as much as that many single steps would, since a pass over
    all the weights costs a few per cent of a step.
    """

    EVERY = 10

    def __init__(self, model: MaxMarginDGM, decay: float) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model: MaxMarginDGM, step: int, steps: int) -> None:
        """Move towards the weights after step number `step` of `steps`, faster at the beginning."""
        since = (step + 1) % self.EVERY or self.EVERY
        if since < self.EVERY and step + 1 < steps:
            return
        decay = min(self.decay, (1 + step) / (10 + step)) ** since
        torch._foreach_lerp_(_floating(self.model), _floating(model), 1 - decay)


def _floating(module: nn.Module) -> list[torch.Tensor]:
    return [t.detach() for t in (*module.parameters(), *module.buffers())]

"""Networks: what turns numbers into hidden activations. Nothing probabilistic lives here."""

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "softplus": F.softplus,
    "relu": F.relu,
    "silu": F.silu,
    "tanh": torch.tanh,
}

GAIN = {"softplus": 1.0, "tanh": 1.0, "relu": math.sqrt(2), "silu": math.sqrt(2)}


class BatchNorm(nn.Module):
    """Batch normalisation that can leave its running averages alone while it trains.

    A pass over perturbed inputs is normalised by its own statistics, but what the model remembers for later
    comes from the data.
    """

    def __init__(self, size: int, momentum: float = 0.01) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size))
        self.mean, self.variance = nn.Buffer(torch.zeros(size)), nn.Buffer(torch.ones(size))
        self.momentum = momentum

    def forward(self, h: Tensor, remember: bool = True) -> Tensor:
        """Normalised by the batch in training, by the running averages otherwise."""
        keep = remember or not self.training
        mean, variance = (self.mean, self.variance) if keep else (None, None)
        return F.batch_norm(h, mean, variance, self.weight, self.bias, self.training, self.momentum)


class Unnormalised(nn.Module):
    """What stands in the place of `BatchNorm` where there is none."""

    def forward(self, h: Tensor, remember: bool = True) -> Tensor:  # noqa: ARG002 - as in BatchNorm
        """The input."""
        return h


class MLP(nn.Module):
    """Fully connected layers, each: linear, (batch normalisation), activation, (dropout).

    Returns the activations of every hidden layer, first to last, since the classifier may read them all.
    Without hidden layers it returns its input. Weights start as N(0, gain^2 / fan_in), biases at zero.
    """

    def __init__(
        self, width: int, hidden: Sequence[int], activation: str, normalise: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        sizes = [width, *hidden]
        self.layers = nn.ModuleList(
            linear(fan_in, fan_out, GAIN[activation]) for fan_in, fan_out in itertools.pairwise(sizes)
        )
        self.norms = nn.ModuleList(BatchNorm(size) if normalise else Unnormalised() for size in hidden)
        self.activation = ACTIVATIONS[activation]
        self.sizes = tuple(hidden) or (width,)
        self.drops = tuple((size, dropout) for size in hidden)

    def forward(self, x: Tensor, dropout: Sequence[Tensor | None] = (), remember: bool = True) -> list[Tensor]:
        """The hidden activations; `dropout` holds a mask for each hidden layer, or is empty."""
        h, activations = x, []
        for i, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            h = drop(self.activation(norm(layer(h), remember)), dropout[i] if dropout else None)
            activations.append(h)
        return activations or [x]


class Linear(nn.Linear):
    """A linear layer whose bias is added after the product, where compiled code fuses it with what follows.

    Handing it to the product costs a copy of the whole output first, 4 % of a training step on two cores.
    """

    def forward(self, h: Tensor) -> Tensor:
        """W h + b."""
        product = F.linear(h, self.weight)
        return product + self.bias.to(product.dtype)


def linear(fan_in: int, fan_out: int, gain: float = 1.0) -> Linear:
    """A linear layer with weights N(0, gain^2 / fan_in), zero for gain 0, and no initial bias."""
    layer = Linear(fan_in, fan_out)
    nn.init.normal_(layer.weight, std=gain / math.sqrt(fan_in)) if gain else nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def full(h: Tensor) -> Tensor:
    """Half precision as float32, for sums and logarithms; anything wider as it is."""
    return h.float() if h.dtype in (torch.bfloat16, torch.float16) else h


def drop(h: Tensor, mask: Tensor | None) -> Tensor:
    """Dropout with a mask that was drawn before, already divided by the share of units that stay."""
    return h if mask is None else h * mask.to(h.dtype)

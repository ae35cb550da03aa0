"""The same networks and objective as one would write them first: what `mmdgm bench train` compares with.

float32, a `DataLoader`, torch's own layers and optimiser, pooling with indices, unpooling by writing zeros, nothing
compiled, no batch normalisation.
"""

import itertools

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from mmdgm.convolution import Shape, smallest_size
from mmdgm.data.dataset import Dataset
from mmdgm.recipes import Recipe
from mmdgm.recipes.layers import Convolution, layers, mirror

_ACTIVATIONS = {"softplus": nn.Softplus, "relu": nn.ReLU, "silu": nn.SiLU, "tanh": nn.Tanh}


class _Unpool(nn.Module):
    """Every value in the corner of a 2 x 2 block of zeros."""

    def forward(self, h: Tensor) -> Tensor:
        """(N, C, H, W) to (N, C, 2 H, 2 W)."""
        n, channels, height, width = h.shape
        zeros = h.new_zeros(n, channels, 2 * height, 2 * width)
        zeros[:, :, ::2, ::2] = h
        return zeros


def _convolutional(specification: list[Convolution], channels: int, activation: type[nn.Module]) -> list[nn.Module]:
    parts: list[nn.Module] = []
    for i, layer in enumerate(specification):
        assert layer.channels is not None
        padding = {"valid": 0, "same": layer.kernel // 2, "full": layer.kernel - 1}[layer.padding]
        parts += [_Unpool()] if layer.up else []
        parts.append(nn.Conv2d(channels, layer.channels, layer.kernel, padding=padding))
        parts += [nn.MaxPool2d(2)] if layer.pool else []
        parts += [activation()] if i + 1 < len(specification) or not layer.up else []
        channels = layer.channels
    return parts


def _linear(sizes: list[int], activation: type[nn.Module]) -> list[nn.Module]:
    return [part for i, o in itertools.pairwise(sizes) for part in (nn.Linear(i, o), activation())]


class PlainLoop(nn.Module):
    """A model of a recipe and its training loop."""

    def __init__(self, recipe: Recipe, data: Dataset, shape: Shape, device: torch.device) -> None:
        super().__init__()
        self.recipe, self.device, self.shape = recipe, device, shape
        activation = _ACTIVATIONS[recipe.activation]
        width = int(np.prod(shape))
        down, flat = self._down(activation, width)
        stages = [nn.Sequential(*down)] if down else []
        stages += [nn.Sequential(*_linear([i, o], activation)) for i, o in itertools.pairwise([flat, *recipe.hidden])]
        self.stages = nn.ModuleList(stages)
        last = recipe.hidden[-1] if recipe.hidden else flat
        read = last if recipe.features == "last" else sum(recipe.hidden)
        self.classifier = nn.Linear(read, len(data.classes))
        K = recipe.latent_size
        self.mu, self.log_variance = nn.Linear(last, K), nn.Linear(last, K)
        self.decoder = nn.Sequential(*self._up([K, *recipe.hidden[::-1]], activation, width))
        self.to(device)
        rows = TensorDataset(torch.from_numpy(data.x).reshape(len(data), -1).float() / 255, torch.from_numpy(data.y))
        self.loader = DataLoader(rows, batch_size=recipe.batch_size, shuffle=True, drop_last=True)
        self.batches = iter(self.loader)
        self.optimiser = torch.optim.Adam(self.parameters(), lr=1e-4)

    def _down(self, activation: type[nn.Module], width: int) -> tuple[list[nn.Module], int]:
        encoder = list(layers(self.recipe.convolutions))
        if not encoder:
            return [], width
        channels, height, wide = self.shape
        for layer in encoder:
            height, wide = layer.size_after(height), layer.size_after(wide)
        flat = (encoder[-1].channels or 1) * height * wide
        parts = _convolutional(encoder, channels, activation)
        return [nn.Unflatten(1, self.shape), *parts, nn.Flatten()], flat

    def _up(self, sizes: list[int], activation: type[nn.Module], width: int) -> list[nn.Module]:
        encoder = layers(self.recipe.convolutions)
        named = self.recipe.generative_convolutions
        decoder = list(mirror(encoder) if named is None else layers(named))
        if not decoder:
            return [*_linear(sizes, activation), nn.Linear(sizes[-1], width)]
        decoder[-1] = decoder[-1]._replace(channels=self.shape[0])
        channels = encoder[-1].channels or 1
        height, wide = smallest_size(self.shape, decoder)
        parts = [*_linear([*sizes, channels * height * wide], activation), nn.Unflatten(1, (channels, height, wide))]
        return [*parts, *_convolutional(decoder, channels, activation), nn.Flatten()]

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
        h, hidden = x, []
        for stage in self.stages:
            h = stage(h)
            hidden.append(h)
        mu, log_variance = self.mu(h), self.log_variance(h)
        outputs = self.decoder(mu + (0.5 * log_variance).exp() * torch.randn_like(mu))
        if self.recipe.likelihood.startswith("bernoulli"):
            bound = F.binary_cross_entropy_with_logits(outputs, x, reduction="sum") / len(x)
        else:
            bound = 0.5 * (outputs - x).square().sum() / len(x)
        bound = bound + 0.5 * (mu**2 + log_variance.exp() - 1 - log_variance).sum() / len(x)
        features = h if self.recipe.features == "last" else torch.cat(hidden, dim=1)
        scores = self.classifier(features)
        truth = F.one_hot(y, scores.shape[1])
        hinge = (scores + self.recipe.margin * (1 - truth)).max(1).values - (scores * truth).sum(1)
        loss: Tensor = bound + self.recipe.C * hinge.mean()
        return loss

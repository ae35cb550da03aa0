"""p(z): what the family of latent variables says, or one that is learned.

A learned prior is N(0, I) noise that went through an invertible network of coupling layers (Dinh et al. 2017). With it
the rate measures how far q(z | x) is from where the data really are in the space of z, rather than from N(0, I).
"""

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from mmdgm.latents import GaussianLatents, Latents
from mmdgm.networks import MLP, linear
from mmdgm.objective import sampled_rate

_WIDTH = 256
"""Hidden units of a coupling layer's network."""


class Prior(Protocol):
    """What the model needs to know of p(z); z has the shape (..., K)."""

    def log_prob(self, z: Tensor) -> Tensor:
        """log p(z), of shape (...)."""
        ...

    def sample(self, like: Tensor) -> Tensor:
        """z ~ p(z) in the shape of `like`, from torch's global generator."""
        ...

    def rate(self, q: Distribution, z: Tensor) -> Tensor:
        """R_n for each sample of z, (L, B): in closed form where there is one, else from the sample."""
        ...


class FamilyPrior(nn.Module):
    """The p(z) of a family of latent variables; nothing of it is learned."""

    def __init__(self, latents: Latents) -> None:
        super().__init__()
        self.latents = latents

    def log_prob(self, z: Tensor) -> Tensor:
        """The sum over the K independent variables."""
        return self.latents.prior(z).log_prob(z).sum(-1)

    def sample(self, like: Tensor) -> Tensor:
        """K independent variables."""
        z: Tensor = self.latents.prior(like).sample()
        return z.to(like.dtype)

    def rate(self, q: Distribution, z: Tensor) -> Tensor:
        """The family's KL(q || p), the same for every sample."""
        return self.latents.divergence(q).expand(z.shape[:-1])


class Coupling(nn.Module):
    """Some variables stay as they are, and say how the others are shifted and scaled: easy to invert.

    It starts as the identity. The logarithm of a scale stays within +-1.
    """

    def __init__(self, stays: Tensor) -> None:
        super().__init__()
        self.stays = nn.Buffer(stays, persistent=False)
        self.network = MLP(len(stays), (_WIDTH, _WIDTH), "relu")
        self.head = linear(_WIDTH, 2 * len(stays), gain=0.0)

    def shift_and_log_scale(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Of the variables that do not stay; zero for those that do."""
        shift, raw = self.head(self.network(z * self.stays)[-1]).chunk(2, dim=-1)
        moves = 1 - self.stays
        return shift * moves, torch.tanh(raw) * moves


class FlowPrior(nn.Module):
    """p(z) of z = g(u), u ~ N(0, I): log p(z) = log N(g^-1(z); 0, I) - log |det dg/du|.

    In full precision also where the other networks are not: its densities go straight into the bound.
    """

    def __init__(self, latent_size: int, layers: int) -> None:
        super().__init__()
        self.base = FamilyPrior(GaussianLatents())
        self.layers = nn.ModuleList(Coupling(_stays(latent_size, number)) for number in range(layers))

    @property
    def couplings(self) -> list[Coupling]:
        """From noise to z."""
        return [layer for layer in self.layers if isinstance(layer, Coupling)]

    def log_prob(self, z: Tensor) -> Tensor:
        """From z back to the noise."""
        with torch.autocast(z.device.type, enabled=False):
            volume = torch.zeros_like(z[..., 0])
            for layer in reversed(self.couplings):
                shift, log_scale = layer.shift_and_log_scale(z)
                z = (z - shift) * (-log_scale).exp()
                volume = volume + log_scale.sum(-1)
            return self.base.log_prob(z) - volume

    def sample(self, like: Tensor) -> Tensor:
        """From noise to z."""
        z = self.base.sample(like)
        for layer in self.couplings:
            shift, log_scale = layer.shift_and_log_scale(z)
            z = z * log_scale.exp() + shift
        return z

    def rate(self, q: Distribution, z: Tensor) -> Tensor:
        """log q(z | x) - log p(z)."""
        return sampled_rate(q, self.log_prob(z), z)


def _stays(latent_size: int, number: int) -> Tensor:
    """Which variables stay in a layer: the first half, the second, every other one, the others; and again."""
    index = torch.arange(latent_size)
    half, other = (index < latent_size // 2), index % 2 == 0
    return (half, ~half, other, ~other)[number % 4].float()

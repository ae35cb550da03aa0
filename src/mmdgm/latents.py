"""Latent variables z: their prior p(z), the family of q(z | x), and how z is made from noise.

A family is one class of a few lines. A family that is `reparameterised` makes z a differentiable function of
the recognition network's output and of noise, z = g(eps, x), as in section 3.2 of the paper; any other is
learned through the score function. `docs/adding-a-model.md` adds one from start to end.
"""

import math
from typing import Protocol

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Distribution, Normal


class Latents(Protocol):
    """What the objective needs to know of a family of latent variables; all shapes are (..., K)."""

    parameters: int
    """How many numbers the recognition network gives for each latent variable."""
    reparameterised: bool

    def prior(self, like: Tensor) -> Distribution:
        """p(z), independent over the K variables, on the device of `like` (any tensor of shape (..., K))."""
        ...

    def posterior(self, outputs: tuple[Tensor, ...]) -> Distribution:
        """q(z | x) from the recognition network's outputs."""
        ...

    def divergence(self, q: Distribution) -> Tensor:
        """KL(q(z | x) || p(z)) in closed form, summed over the K variables."""
        ...

    def noise(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """eps ~ p(eps), the noise from which z is made."""
        ...

    def make(self, q: Distribution, noise: Tensor) -> Tensor:
        """z = g(eps, x), a sample of q."""
        ...


class GaussianLatents:
    """z ~ N(0, I); q(z | x) = N(mu(x), diag sigma^2(x)); z = mu + sigma * eps."""

    parameters = 2
    reparameterised = True

    def prior(self, like: Tensor) -> Normal:
        """N(0, I)."""
        return Normal(torch.zeros_like(like), torch.ones_like(like), validate_args=False)

    def posterior(self, outputs: tuple[Tensor, ...]) -> Normal:
        """The outputs are mu and log sigma^2, which is kept within +-10."""
        mu, log_variance = outputs
        return Normal(mu, (0.5 * log_variance.clamp(-10, 10)).exp(), validate_args=False)

    def divergence(self, q: Distribution) -> Tensor:
        """1/2 sum (mu^2 + sigma^2 - 1 - log sigma^2)."""
        variance = q.variance
        return 0.5 * (q.mean.square() + variance - 1 - variance.log()).sum(-1)

    def noise(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """eps ~ N(0, I)."""
        return torch.randn(shape, generator=generator, device=generator.device)

    def make(self, q: Distribution, noise: Tensor) -> Tensor:
        """z = mu + sigma * eps."""
        return q.mean + q.stddev * noise


class BernoulliLatents:
    """z in {0, 1}^K (a sigmoid belief network); p(z) and q(z | x) are Bernoulli, z = 1(u < q(z = 1 | x))."""

    parameters = 1
    reparameterised = False

    def prior(self, like: Tensor) -> Bernoulli:
        """Every variable is one half of the time 1."""
        return Bernoulli(logits=torch.zeros_like(like), validate_args=False)

    def posterior(self, outputs: tuple[Tensor, ...]) -> Bernoulli:
        """The one output is the logit."""
        (logits,) = outputs
        return Bernoulli(logits=logits, validate_args=False)

    def divergence(self, q: Distribution) -> Tensor:
        """K log 2 minus the entropy of q."""
        return (math.log(2) - q.entropy()).sum(-1)

    def noise(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """u ~ Uniform(0, 1)."""
        return torch.rand(shape, generator=generator, device=generator.device)

    def make(self, q: Distribution, noise: Tensor) -> Tensor:
        """z = 1 where u is below the probability of a 1."""
        return (noise < q.mean).to(noise.dtype)


LATENTS: dict[str, Latents] = {"gaussian": GaussianLatents(), "bernoulli": BernoulliLatents()}

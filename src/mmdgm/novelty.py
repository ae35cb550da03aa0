"""How unlike the training rows a row is. The bound alone is no answer: an all-black image is simple, its bound high.

    bound        D + R: how improbable the model calls the row
    regret       the most that the bound could be raised by a posterior of the row's own (Xiao, Yan and Amit 2020):
                 max_{mu, sigma} -(D + R) at q = N(mu, diag sigma^2), less -(D + R) at the recognised q. A recognition
                 network that never saw such rows is far from the best posterior.
    typicality   how far D, R and regret are from those of the training rows, each as asinh (a logarithm that takes any
                 number): their squared Mahalanobis distance. A row whose bound is much too good is unlike them, too
                 (after Nalisnick et al. 2019), and so is one whose bound is theirs but not for their reasons.

All are in the sense that more is stranger. Only what is observed of a row counts; for typicality, in proportion to it.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import Normal

from mmdgm.data.batches import Batch
from mmdgm.errors import InputError
from mmdgm.model import MaxMarginDGM
from mmdgm.objective import distortion
from mmdgm.runtime import generator

_ROWS = 1000
"""Rows that are looked at together."""


@dataclass(frozen=True)
class Regret:
    """How the posterior of a row's own is looked for: Adam on (mu, log sigma), the same draws of z for every row."""

    steps: int = 60
    rate: float = 0.1
    samples: int = 4


def terms(model: MaxMarginDGM, rows: Batch, samples: int, seed: int) -> tuple[Tensor, Tensor]:
    """D and R of every row, with the same `samples` draws of noise for all, so that no row depends on another."""
    found = []
    for x, observed in _parts(model, rows):
        with torch.no_grad():
            q = model.recognition(x, observed).q
            found.append(_terms(model, x, observed, q.mean, q.stddev.log(), _noise(model, x, samples, seed)))
    return torch.cat([D for D, _ in found]), torch.cat([R for _, R in found])


def likelihood_regret(model: MaxMarginDGM, rows: Batch, how: Regret, seed: int) -> Tensor:
    """The regret of every row, at least 0, in nats."""
    if model.recipe.latents != "gaussian":
        raise InputError(f"the likelihood regret is for Gaussian latents; the recipe has {model.recipe.latents}.")
    return torch.cat([_regret(model, x, observed, how, seed) for x, observed in _parts(model, rows)])


def _regret(model: MaxMarginDGM, x: Tensor, observed: Tensor, how: Regret, seed: int) -> Tensor:
    noise = _noise(model, x, how.samples, seed)
    with torch.no_grad():
        q = model.recognition(x, observed).q
    mu, log_sigma = q.mean.clone().requires_grad_(), q.stddev.log().clone().requires_grad_()
    optimiser = torch.optim.Adam([mu, log_sigma], lr=how.rate)
    first = best = None
    for step in range(how.steps + 1):
        with torch.enable_grad():
            D, R = _terms(model, x, observed, mu, log_sigma, noise)
            cost = D + R
        now = cost.detach()
        first = now if first is None else first
        best = now if best is None else torch.minimum(best, now)
        if step < how.steps:
            mu.grad, log_sigma.grad = torch.autograd.grad(cost.sum(), (mu, log_sigma))
            optimiser.step()
    assert first is not None
    assert best is not None
    return first - best


def _terms(
    model: MaxMarginDGM, x: Tensor, observed: Tensor, mu: Tensor, log_sigma: Tensor, noise: Tensor
) -> tuple[Tensor, Tensor]:
    """D and R at q = N(mu, diag sigma^2)."""
    assert model.generative is not None
    z = mu + log_sigma.exp() * noise
    D = distortion(model.generative(z), x, observed).mean(0)
    return D, model.prior.rate(Normal(mu, log_sigma.exp(), validate_args=False), z).mean(0)


def _noise(model: MaxMarginDGM, like: Tensor, samples: int, seed: int) -> Tensor:
    drawn = model.latents.noise((samples, 1, model.recipe.latent_size), generator(like.device, seed, "novelty"))
    return drawn.to(like.dtype)


def _parts(model: MaxMarginDGM, rows: Batch) -> list[tuple[Tensor, Tensor]]:
    model.eval()
    parts = [rows.between(start, start + _ROWS) for start in range(0, len(rows.x), _ROWS)]
    return [(model.prepared(part).x, part.observed) for part in parts]


@dataclass(frozen=True)
class Typical:
    """Mean and inverse covariance of (D, R, regret) over training rows, in units that a hole does not change."""

    mean: NDArray[np.float64]
    precision: NDArray[np.float64]

    @staticmethod
    def fitted(model: MaxMarginDGM, rows: Batch, how: Regret, seed: int) -> "Typical":
        """From training rows; a small ridge stands for what few rows cannot tell."""
        seen = _statistics(model, rows, how, seed)
        spread = np.atleast_2d(np.cov(seen.T, bias=True)) + 1e-4 * np.eye(3)
        return Typical(seen.mean(0), np.linalg.inv(spread).astype(np.float64))

    def distance(self, model: MaxMarginDGM, rows: Batch, how: Regret, seed: int) -> NDArray[np.float64]:
        """The squared Mahalanobis distance of every row."""
        apart = _statistics(model, rows, how, seed) - self.mean
        found: NDArray[np.float64] = np.einsum("ni,ij,nj->n", apart, self.precision, apart)
        return found


def _statistics(model: MaxMarginDGM, rows: Batch, how: Regret, seed: int) -> NDArray[np.float64]:
    """asinh of D, R and regret, (rows, 3); what only observed entries add to, as if all entries were observed."""
    D, R = terms(model, rows, how.samples, seed)
    share = rows.observed.double().mean(-1).clamp(min=1 / rows.observed.shape[1]).to(D)
    regret = likelihood_regret(model, rows, how, seed)
    both = torch.stack([D / share, R, regret / share], dim=1).double().cpu().numpy()
    found: NDArray[np.float64] = np.arcsinh(both)
    return found

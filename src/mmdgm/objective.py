"""The learning problem, to be read beside sections 3.1 and 3.2 of the paper.

In nats per example, lower is better:

    D_n = -E_q[log p(x_n | z)]                                          distortion
    R_n = KL(q(z | x_n) || p(z))                                        rate
    H_n = max_y [ margin 1(y != y_n) - lambda . (f(y_n) - f(y)) ]       hinge

    J = mean_n (D_n + R_n) + C mean_n H_n + |lambda|^2 / (2 sigma^2 N)

Only observed entries of x_n cost anything in D_n, and only labelled rows have an H_n.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.nn import functional as F

from mmdgm.data.dataset import UNKNOWN


class Terms(NamedTuple):
    """D_n, R_n and H_n: one number for each example, or their means."""

    distortion: Tensor
    rate: Tensor
    hinge: Tensor

    def means(self) -> "Terms":
        """The three means over the examples."""
        return Terms(*(term.mean() for term in self))


@dataclass(frozen=True)
class Objective:
    """J for a training set of N examples."""

    C: float
    margin: float
    weight_variance: float
    N: int

    def __call__(self, terms: Terms, squared_norm: Tensor) -> Tensor:
        """J = mean (D + R) + C mean H + |lambda|^2 / (2 sigma^2 N)."""
        D, R, H = terms.means()
        return D + R + self.C * H + squared_norm / (2 * self.weight_variance * self.N)


def distortion(p: Distribution, x: Tensor, observed: Tensor) -> Tensor:
    """-log p(x | z), summed over the observed entries; the expectation over q is the caller's mean over z."""
    return -(p.log_prob(x) * observed).sum(-1)


def sampled_rate(q: Distribution, log_prior: Tensor, z: Tensor) -> Tensor:
    """log q(z | x) - log p(z) for z ~ q, whose expectation is the rate R_n."""
    return q.log_prob(z).sum(-1) - log_prior


def augmented_scores(scores: Tensor, y: Tensor, margin: float) -> Tensor:
    """margin 1(y != y_n) + F(y; x_n) for every y, whose maximum is the loss-augmented prediction."""
    return scores + margin * (1 - _one_hot(scores, y))


def hinge(scores: Tensor, y: Tensor, margin: float) -> Tensor:
    """H_n from the decision values F(y; x_n); never negative, since y = y_n gives 0, and 0 without a label."""
    true_score = (scores * _one_hot(scores, y)).sum(-1)
    loss = augmented_scores(scores, y, margin).amax(-1) - true_score
    return torch.where(y == UNKNOWN, torch.zeros_like(loss), loss)


def true_margin(scores: Tensor, y: Tensor) -> Tensor:
    """F(y_n; x_n) minus the best other score: positive where the prediction is right."""
    truth = _one_hot(scores, y)
    return (scores * truth).sum(-1) - scores.masked_fill(truth.bool(), -torch.inf).amax(-1)


def _one_hot(scores: Tensor, y: Tensor) -> Tensor:
    return F.one_hot(y.clamp(min=0), scores.shape[-1]).to(scores.dtype)

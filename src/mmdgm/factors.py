"""Factor analysis of rows with holes, in closed form: what both networks of a small table start from.

    z ~ N(0, I),   x_d | z ~ N(w_d . z, psi_d),   w_d ~ N(0, I / K)

for columns x_d that are standardised. Given what is observed of a row (o), and q(w_d) = N(w_d, V_d),

    q(z | x_o) = N(mu, P^-1),   P = I + sum_{d in o} (w_d w_d' + V_d) / psi_d,   mu = P^-1 sum_{d in o} w_d x_d / psi_d

`fit_factors` finds w, V and psi by variational Bayes: the uncertainty V of the loadings is what keeps a hundred rows
with many holes from being believed too much. A category's levels and truth values are treated as numbers here.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from mmdgm.likelihoods import LOG_VARIANCE_FLOOR

_ROUNDS = 50


class Completed(NamedTuple):
    """What factor analysis says of rows: x with its holes filled, and mean and variance of every z."""

    x: Tensor
    mean: Tensor
    variance: Tensor


class Factors(nn.Module):
    """w (D, K), (w w' + V) / psi (D, K K) and psi (D); center and unit standardise the entries of x.

    All of it is fixed by `fit_factors` before training; until then every z is what its prior says.
    """

    def __init__(self, width: int, factors: int) -> None:
        super().__init__()
        self.loadings = nn.Buffer(torch.zeros(width, factors))
        self.precision = nn.Buffer(torch.zeros(width, factors * factors))
        self.psi = nn.Buffer(torch.ones(width))
        self.center, self.unit = nn.Buffer(torch.zeros(width)), nn.Buffer(torch.ones(width))

    def forward(self, x: Tensor, seen: Tensor) -> Completed:
        """What is `seen` of x says where it lies among the factors, and so what the rest of it may be."""
        with torch.autocast(x.device.type, enabled=False):
            standard = (x - self.center) / self.unit * seen
            known = seen[:1] if seen.stride(0) == 0 else seen  # rows without holes have one covariance
            mean, covariance = posterior(standard, known.to(x.dtype), self.loadings, self.precision, self.psi)
            filled = self.center + self.unit * (mean @ self.loadings.T)
            return Completed(torch.where(seen, x, filled), mean, covariance.diagonal(dim1=-2, dim2=-1).expand_as(mean))


def posterior(x: Tensor, known: Tensor, loadings: Tensor, precision: Tensor, psi: Tensor) -> tuple[Tensor, Tensor]:
    """mu (B, K) and P^-1 (B, K, K) of standardised rows that are 0 where they are not known.

    precision: (w_d w_d' + V_d) / psi_d of every entry, flat.
    """
    K = loadings.shape[1]
    identity = torch.eye(K, dtype=x.dtype, device=x.device)
    P = identity + (known @ precision).unflatten(-1, (K, K))
    covariance = torch.cholesky_inverse(torch.linalg.cholesky_ex(P).L)
    return (covariance @ ((x / psi) @ loadings).unsqueeze(-1)).squeeze(-1), covariance


@torch.no_grad()
def fit_factors(factors: Factors, x: Tensor, seen: Tensor, weights: Tensor) -> None:
    """Variational Bayes on rows x (0 where not seen), each counted by its weight.

    The factors come out rotated so that they are independent given a whole row, and in the order of what rows say of
    them.
    """
    x, known, n = x.double(), seen.double(), weights.double().unsqueeze(-1)
    count = (n * known).sum(0).clamp(min=1)
    center = (n * known * x).sum(0) / count
    unit = ((n * known * (x - center).square()).sum(0) / count).sqrt()
    unit = torch.where(unit > 0, unit, torch.ones_like(unit))
    x = (x - center) / unit * known
    w, V, psi = _variational(x, known, n, count, factors.loadings.shape[1])
    M = ((_outer(w) + V) / psi[:, None, None]).sum(0)
    turn = torch.linalg.eigh(M).eigenvectors.flip(-1)
    w, V = w @ turn, turn.T @ V @ turn
    factors.loadings.copy_(w)
    factors.precision.copy_(((_outer(w) + V) / psi[:, None, None]).flatten(1))
    factors.psi.copy_(psi)
    factors.center.copy_(center)
    factors.unit.copy_(unit)


def _variational(x: Tensor, known: Tensor, n: Tensor, count: Tensor, K: int) -> tuple[Tensor, Tensor, Tensor]:
    """w, V and psi, from the principal components of the rows with their holes at the mean."""
    D = x.shape[1]
    _, scale, components = torch.linalg.svd(n.sqrt() * x, full_matrices=False)
    most = min(K, len(scale))
    w = x.new_zeros(D, K)
    w[:, :most] = components[:most].T * scale[:most] / n.sum().sqrt()
    V, psi = x.new_zeros(D, K, K), x.new_full((D,), 0.5)
    prior = K * torch.eye(K, dtype=x.dtype)
    for _ in range(_ROUNDS):
        mu, C = posterior(x, known, w, ((_outer(w) + V) / psi[:, None, None]).flatten(1), psi)
        zz = ((n * known).T @ (C + _outer(mu)).flatten(1)).unflatten(-1, (K, K))
        V = torch.linalg.inv(prior + zz / psi[:, None, None])
        w = (V @ ((n * x / psi).T @ mu).unsqueeze(-1)).squeeze(-1)
        cross = (n * x).T @ mu
        squares = (n * x.square()).sum(0) - 2 * (w * cross).sum(-1) + ((_outer(w) + V) * zz).sum((-2, -1))
        psi = (squares / count).clamp(min=torch.tensor(LOG_VARIANCE_FLOOR).exp().item())
    return w, V, psi


def _outer(rows: Tensor) -> Tensor:
    return rows.unsqueeze(-1) * rows.unsqueeze(-2)

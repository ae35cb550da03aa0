"""Whether chains have mixed: R-hat and the effective sample size, of many rows at once.

Both split every chain in two halves, so that a chain that drifts is found, too (Gelman et al., Bayesian Data Analysis,
3rd edition, section 11.4). `traces` has the shape (chains, steps, ...): one answer for each of what follows.
"""

import math

import torch
from torch import Tensor

MIXED = 1.1
"""Chains with an R-hat above this have not mixed."""
LEAST_STEPS = 10


def r_hat(traces: Tensor) -> Tensor:
    """sqrt(V / W): the variance of all draws over the variance within half chains; 1 where the chains agree."""
    halves = _halves(traces)
    n = halves.shape[1]
    within = halves.var(dim=1).mean(0)
    between = n * halves.mean(1).var(0)
    ratio = ((n - 1) / n * within + between / n) / within
    constant = (halves == halves[:1, :1]).all(0).all(0)
    return torch.where(constant, torch.ones_like(ratio), ratio.sqrt())


def effective_sample_size(traces: Tensor) -> Tensor:
    """draws / (1 + 2 sum_t rho_t), the autocorrelations summed in pairs while the pairs are positive and fall.

    At least `LEAST_STEPS` steps are needed.
    """
    halves = _halves(traces)
    chains, n = halves.shape[:2]
    autocovariance = _autocovariance(halves).mean(1)  # (lags, ...)
    within = autocovariance[0] * n / (n - 1)
    whole = within * (n - 1) / n + halves.mean(1).var(0)
    rho = 1 - (within - autocovariance) / whole
    rho[0] = 1
    pairs_at_most = (n - 1) // 2  # the last one counts half, as if it were the first that is not positive
    even, odd = rho[: 2 * pairs_at_most : 2], rho[1 : 2 * pairs_at_most : 2]
    kept = (even + odd > 0).cumprod(0)
    kept[-1] = 0
    pairs = torch.where(kept.bool(), even + odd, torch.zeros_like(even)).cummin(0).values
    beyond = even.gather(0, kept.sum(0, keepdim=True))[0].clamp(min=0)
    length = (2 * pairs.sum(0) - 1 + beyond).clamp(min=1 / math.log10(chains * n))
    constant = (halves == halves[:1, :1]).all(0).all(0)
    return torch.where(constant, torch.full_like(length, float(chains * n)), chains * n / length)


def _halves(traces: Tensor) -> Tensor:
    """(2 chains, steps / 2, ...) in double precision; a middle step of an odd number is left out."""
    half = traces.shape[1] // 2
    return torch.cat([traces[:, :half], traces[:, traces.shape[1] - half :]]).double()


def _autocovariance(draws: Tensor) -> Tensor:
    """(lags, chains, ...), by Fourier transform."""
    n = draws.shape[1]
    centred = draws - draws.mean(1, keepdim=True)
    spectrum = torch.fft.rfft(centred, n=2 * n, dim=1)
    covariance: Tensor = torch.fft.irfft(spectrum.abs().square(), n=2 * n, dim=1)[:, :n] / n
    return covariance.transpose(0, 1)

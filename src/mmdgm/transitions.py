"""One step of each way to fill in what is missing; `mmdgm.imputation` takes many, and says what they are for.

x_o is what is observed of a row, x_m what is not, x both together.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from mmdgm.model import MaxMarginDGM, Recognised
from mmdgm.objective import sampled_rate

Method = Literal["chain", "metropolis", "importance", "direct"]


class Before(NamedTuple):
    """What a step starts from: the rows and where they are observed, x and z of the step before, and noise."""

    x_o: Tensor
    observed: Tensor
    x: Tensor
    z: Tensor | None
    eps: Tensor


class Draw(NamedTuple):
    """What a step gives: x with x_m filled in, its z, mean and variance of p(x | z), F(y; x), and a weight."""

    x: Tensor
    z: Tensor
    mean: Tensor
    variance: Tensor
    scores: Tensor
    log_density: Tensor
    log_weight: Tensor


def chain(model: MaxMarginDGM, before: Before) -> Draw:
    """z ~ q(z | x), then x_m becomes the mean of p(x | z)."""
    return _drawn(model, before, model.recognition(before.x, torch.ones_like(before.observed)))[0]


def metropolis(model: MaxMarginDGM, before: Before) -> Draw:
    """z' ~ q(z | x) is accepted with probability min(1, p(x, z') q(z | x) / (p(x, z) q(z' | x))); x_m ~ p(x_m | z)."""
    x, observed = before.x, before.observed
    recognised = model.recognition(x, torch.ones_like(observed))
    proposed = model.latents.make(recognised.q, before.eps)
    both = torch.cat([proposed if before.z is None else before.z, proposed])
    p = generative(model)(both)
    densities = p.log_prob(x)
    weight = densities.sum(-1) + _log_ratio(model, recognised, both)
    accepted = (torch.rand_like(weight[0]).log() < weight[1] - weight[0]).unsqueeze(-1)

    def chosen(pair: Tensor) -> Tensor:
        return torch.where(accepted, pair[1], pair[0])

    density = (chosen(densities) * observed).sum(-1)
    return Draw(
        x=torch.where(observed, before.x_o, chosen(p.sample())),
        z=chosen(both).unsqueeze(0),
        mean=chosen(p.mean),
        variance=chosen(p.variance),
        scores=model.classifier(model.features(recognised)),
        log_density=density,
        log_weight=torch.zeros_like(density),
    )


def importance(model: MaxMarginDGM, before: Before) -> Draw:
    """z ~ q(z | x_o), with the weight p(x_o | z) p(z) / q(z | x_o)."""
    draw, log_ratio = _drawn(model, before, model.recognition(before.x_o, before.observed))
    return draw._replace(log_weight=draw.log_density + log_ratio)


def direct(model: MaxMarginDGM, before: Before) -> Draw:
    """z ~ q(z | x_o)."""
    return _drawn(model, before, model.recognition(before.x_o, before.observed))[0]


TRANSITIONS: dict[Method, Callable[[MaxMarginDGM, Before], Draw]] = {
    "chain": chain,
    "metropolis": metropolis,
    "importance": importance,
    "direct": direct,
}


def _drawn(model: MaxMarginDGM, before: Before, recognised: Recognised) -> tuple[Draw, Tensor]:
    """A draw of z from q, and log p(z) - log q(z)."""
    z = model.latents.make(recognised.q, before.eps)
    p = generative(model)(z)
    mean = p.mean[0]
    density = (p.log_prob(before.x_o)[0] * before.observed).sum(-1)
    draw = Draw(
        x=torch.where(before.observed, before.x_o, mean),
        z=z,
        mean=mean,
        variance=p.variance[0],
        scores=model.classifier(model.features(recognised)),
        log_density=density,
        log_weight=torch.zeros_like(density),
    )
    return draw, _log_ratio(model, recognised, z)[0]


def _log_ratio(model: MaxMarginDGM, recognised: Recognised, z: Tensor) -> Tensor:
    """log p(z) - log q(z | what was recognised)."""
    return -sampled_rate(recognised.q, model.prior.log_prob(z), z)


def generative(model: MaxMarginDGM) -> Callable[[Tensor], Distribution]:
    """p(x | z) of a model that has it."""
    assert model.generative is not None
    return model.generative

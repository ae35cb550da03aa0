"""Estimators of the objective's gradient (section 3.2): reparameterised, and by the score function.

Both take a batch and the noise of the step, and return a surrogate: a number whose gradient is the estimate.
For the reparameterised estimator the surrogate is the estimate of J itself.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from mmdgm.data.batches import Batch
from mmdgm.data.dataset import UNKNOWN
from mmdgm.model import MaxMarginDGM, Noise, Recognised, visible
from mmdgm.networks import full
from mmdgm.objective import Objective, Terms, augmented_scores, distortion, hinge, sampled_rate


class Estimate(NamedTuple):
    """A surrogate to differentiate, and the means of the terms of J over the batch."""

    surrogate: Tensor
    terms: Terms


def observe(model: MaxMarginDGM, batch: Batch, noise: Noise) -> Batch:
    """The rows as this step sees them: prepared, or pixels drawn as bits if the noise says so.

    A number from 0 to 254 is below a pixel's byte with the probability that the pixel is 1, byte / 255.
    """
    if noise.pixels is None:
        return model.prepared(batch, noise.hidden)
    levels = batch.x if batch.x.dtype == torch.uint8 else batch.x * 255 - 0.5
    return batch._replace(x=(noise.pixels < levels).to(torch.float32))


def estimate(
    model: MaxMarginDGM, batch: Batch, noise: Noise, objective: Objective, perturbation: Tensor | None = None
) -> Estimate:
    """The estimate that the model's recipe asks for, for a batch as `observe` returns it.

    `perturbation` is from `mmdgm.adversary`, if the margin is to hold near x, too.
    """
    seen = visible(batch.observed, noise.hidden)
    recognised = model.recognition(batch.x, seen, noise.dropout, label=model.label(batch.y))
    if model.recipe.estimator == "score" and model.generative is not None:
        return _score_function(model, batch, recognised, noise, objective)
    return _reparameterised(model, batch, recognised, noise, objective, perturbation)


def _reparameterised(
    model: MaxMarginDGM,
    batch: Batch,
    recognised: Recognised,
    noise: Noise,
    objective: Objective,
    perturbation: Tensor | None,
) -> Estimate:
    """With z = g(eps, x), J's estimate is differentiable in every parameter, and so its own surrogate."""
    q = recognised.q
    z = model.latents.make(q, noise.latents)
    D = R = torch.zeros_like(batch.x[:, 0])
    if model.generative is not None:
        D = distortion(model.generative(z, model.label(batch.y)), batch.x, batch.observed).mean(0)
        R = _rate(model, q, z).mean(0)
    H = hinge(_scores(model, recognised, z, noise), batch.y, objective.margin)
    if perturbation is not None:  # the margin is asked for at x and at the worst point near it alike
        seen = visible(batch.observed, noise.hidden)
        near = model.recognition(batch.x + perturbation, seen, noise.dropout, remember=False)
        z_near = model.latents.make(near.q, noise.latents)
        H = (H + hinge(_scores(model, near, z_near, noise), batch.y, objective.margin)) / 2
    terms = Terms(D, R, _weighted(model, H, batch.y))
    return Estimate(objective(terms, model.classifier.squared_norm()), terms.means())


def _score_function(
    model: MaxMarginDGM, batch: Batch, recognised: Recognised, noise: Noise, objective: Objective
) -> Estimate:
    """Equation 7: E_q[cost(z) grad log q(z)] for what depends on phi through z alone, paths for the rest.

    The cost of a sample is what it adds to J: -log p(x | z), log q(z) - log p(z) unless the rate is in closed
    form, and C (F(y~, z) - F(y_n, z)) with the loss-augmented prediction y~ if the classifier reads z.
    """
    assert model.generative is not None
    q = recognised.q
    z = model.latents.make(q, noise.latents).detach()
    D = distortion(model.generative(z, model.label(batch.y)), batch.x, batch.observed)
    R = _rate(model, q, z)
    scores = _scores_of_samples(model, recognised, z, noise)
    H = _hinge_of_samples(scores, _expected_scores(model, recognised, noise), batch.y, objective.margin)
    H = _weighted(model, H, batch.y)
    cost = D.detach()
    if model.recipe.rate == "sampled":
        cost = cost + R.detach()
        R = R.detach()
    if _reads_samples(model):
        cost = cost + objective.C * H.detach()
    terms = Terms(D.mean(0), R.mean(0), H.mean(0))
    log_q = q.log_prob(z).sum(-1)
    baseline = _baseline(model, cost, recognised.hidden[-1].detach())
    surrogate = objective(terms, model.classifier.squared_norm())
    surrogate = surrogate + ((cost - baseline.detach()) * log_q).mean()
    if model.baseline is not None:  # the learned baseline follows the cost by least squares
        surrogate = surrogate + (baseline - cost).square().mean()
    return Estimate(surrogate, terms.means())


def _weighted(model: MaxMarginDGM, H: Tensor, y: Tensor) -> Tensor:
    """w_y H_n: a hinge loss counts as much as the recipe says of its class."""
    if not model.recipe.class_weights:
        return H
    weights = torch.tensor(model.recipe.class_weights, dtype=H.dtype, device=H.device)
    return H * weights[y.clamp(min=0)]


def _rate(model: MaxMarginDGM, q: Distribution, z: Tensor) -> Tensor:
    """R_n for each sample of z, (L, B)."""
    if model.recipe.rate == "sampled":
        return sampled_rate(q, model.prior.log_prob(z), z)
    return model.prior.rate(q, z)


def _reads_samples(model: MaxMarginDGM) -> bool:
    return model.recipe.features == "latents" and model.recipe.expected_features == "sampled"


def _scores_of_samples(model: MaxMarginDGM, recognised: Recognised, z: Tensor, noise: Noise) -> Tensor:
    """Decision values for each sample, (L, B, M); L = 1 where the features do not depend on the samples."""
    mask = noise.dropout[-1] if noise.dropout else None
    f = model.features(recognised, z if _reads_samples(model) else None, mask)
    scores: Tensor = model.classifier(f if f.ndim == 3 else f.unsqueeze(0))
    return scores


def _scores(model: MaxMarginDGM, recognised: Recognised, z: Tensor, noise: Noise) -> Tensor:
    return _scores_of_samples(model, recognised, z, noise).mean(0)


def _expected_scores(model: MaxMarginDGM, recognised: Recognised, noise: Noise) -> Tensor:
    """F(y; x) from E[f], in closed form since F is linear in f."""
    mask = noise.dropout[-1] if noise.dropout else None
    scores: Tensor = model.classifier(model.features(recognised, None, mask))
    return scores.detach()


def _hinge_of_samples(scores: Tensor, expected: Tensor, y: Tensor, margin: float) -> Tensor:
    """margin 1(y~ != y_n) + F(y~, z_l) - F(y_n, z_l) for each sample, (L, B).

    y~ is the loss-augmented prediction from the expected features. It does not depend on the samples, so the mean
    over them has the subgradient of the hinge loss of F(y; x) as its expectation; y~ from the samples would not.
    """
    predicted = augmented_scores(expected, y, margin).argmax(-1)

    def of(label: Tensor) -> Tensor:
        return scores.gather(-1, label.clamp(min=0).expand(scores.shape[:-1]).unsqueeze(-1)).squeeze(-1)

    loss = margin * (predicted != y).to(scores.dtype) + of(predicted) - of(y)
    return torch.where(y == UNKNOWN, torch.zeros(()).to(scores), loss)


def _baseline(model: MaxMarginDGM, cost: Tensor, hidden: Tensor) -> Tensor:
    """What a sample's cost is compared with; it does not depend on that sample, so the mean is unmoved."""
    if model.recipe.baseline == "none":
        return torch.zeros_like(cost)
    if model.baseline is not None:
        return full(model.baseline(hidden)).squeeze(-1).expand(cost.shape)
    return (cost.sum(0) - cost) / (len(cost) - 1)

"""How good a model is: error, bound, importance-weighted likelihood, calibration; each with its protocol.

A bound depends on the pixels (grey or binarised), on the number of samples and on the scaling, by up to 22 nats
on MNIST. So every figure travels with the words that say how it came about.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from mmdgm.data.batches import Batch
from mmdgm.data.dataset import UNKNOWN
from mmdgm.errors import InputError
from mmdgm.model import MaxMarginDGM
from mmdgm.objective import distortion, sampled_rate
from mmdgm.recipes import Recipe
from mmdgm.runtime import Runtime, generator

_ROWS = 5000
"""Rows times samples that are looked at together; what fits well into memory and caches."""


@dataclass(frozen=True)
class ClassFigures:
    """One class: its rows, how many of them are missed, and how many of its predictions are right."""

    label: str
    examples: int
    error_percent: float
    precision_percent: float


@dataclass(frozen=True)
class Evaluation:
    """The figures of a model on one part of the data. Without labels there is no error, without p(x | z) no bound."""

    examples: int
    labelled: int
    error_percent: float | None
    error_standard_error: float | None
    calibration_error: float | None
    bound_nats: float | None
    bound_standard_error: float | None
    distortion_nats: float | None
    rate_nats: float | None
    likelihood_nats: float | None
    likelihood_standard_error: float | None
    per_class: tuple[ClassFigures, ...]
    protocol: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As `evaluate --json` prints it."""
        return asdict(self)


@torch.no_grad()
def evaluate(
    model: MaxMarginDGM,
    data: Batch,
    classes: tuple[str, ...],
    seed: int = 0,
    samples: int = 1,
    importance_samples: int = 0,
    split: str = "test",
) -> Evaluation:
    """All figures, in float32: `samples` of z for the bound, `importance_samples` for the likelihood (0: none)."""
    for name, count, least in (("samples", samples, 1), ("importance_samples", importance_samples, 0)):
        if count < least:
            raise InputError(f"{name} must be at least {least}; got {count}.")
    model.eval()
    scores, y = decision_values(model, data).cpu(), data.y.cpu()
    known = y != UNKNOWN
    error = error_se = calibration = None
    if model.recipe.classifies and known.any():
        wrong = (scores.argmax(-1) != y)[known].double()
        error, error_se = 100 * wrong.mean().item(), 100 * _standard_error(wrong)
        calibration = calibration_error(scores[known], y[known])
    D = R = likelihood = None
    if model.generative is not None:
        D, R = bound_terms(model, data, samples, generator(data.x.device, seed, "bound"))
        if importance_samples:
            key = generator(data.x.device, seed, "likelihood")
            likelihood = importance_weighted(model, data, importance_samples, key)
    return Evaluation(
        examples=len(data.x),
        labelled=int(known.sum()),
        error_percent=error,
        error_standard_error=error_se,
        calibration_error=calibration,
        bound_nats=None if D is None or R is None else -(D + R).mean().item(),
        bound_standard_error=None if D is None or R is None else _standard_error(D + R),
        distortion_nats=None if D is None else D.mean().item(),
        rate_nats=None if R is None else R.mean().item(),
        likelihood_nats=None if likelihood is None else likelihood.mean().item(),
        likelihood_standard_error=None if likelihood is None else _standard_error(likelihood),
        per_class=() if error is None else per_class(scores[known], y[known], classes),
        protocol=protocol(model, split, samples, importance_samples, seed),
    )


def protocol(model: MaxMarginDGM, split: str, samples: int, importance_samples: int, seed: int) -> dict[str, Any]:
    """How the figures came about, in words that a table can carry."""
    image = model.schema.image_shape is not None
    return {
        "split": split,
        "values": "grey pixels, x/255 in [0, 1]" if image else "columns, real ones standardised; observed only",
        "bound": _bound_in_words(model.recipe),
        "samples": samples,
        "importance_samples": importance_samples,
        "calibration": "expected calibration error of softmaxed scores, 15 equal bins",
        "precision": "float32",
        "evaluation_seed": seed,
    }


def _bound_in_words(recipe: Recipe) -> str:
    how = "estimated with the samples" if recipe.prior_layers else "in closed form"
    return f"-(D + R), nats per example, KL {how}" + (", given y" if recipe.conditional else "")


@torch.no_grad()
def quick_look(model: MaxMarginDGM, data: Batch, runtime: Runtime, seed: int) -> dict[str, float]:
    """Validation error and bound in the precision of training, for progress and for choosing an epoch."""
    model.eval()
    found = {}
    with runtime.autocast():
        known = data.y != UNKNOWN
        if model.recipe.classifies and known.any():
            wrong = (decision_values(model, data).argmax(-1) != data.y)[known]
            found["valid_error_percent"] = 100 * wrong.cpu().double().mean().item()
        if model.generative is not None:
            D, R = bound_terms(model, data, 1, generator(data.x.device, seed, "validation"))
            found["valid_bound_nats"] = -(D + R).mean().item()
    return found


def decision_values(model: MaxMarginDGM, data: Batch) -> Tensor:
    """F(y; x) of every row and class."""
    return torch.cat([model.scores(model.prepared(part).x, part.observed) for part in _parts(data, 1)])


def bound_terms(model: MaxMarginDGM, data: Batch, samples: int, key: torch.Generator) -> tuple[Tensor, Tensor]:
    """D_n from `samples` draws of z, and R_n (in closed form unless p(z) is learned), for every row."""
    assert model.generative is not None
    distortions, rates = [], []
    for part in _parts(data, samples):
        x = model.prepared(part).x
        label = _label(model, part, x)
        q = model.recognition(x, part.observed, label=label).q
        z = model.latents.make(q, _latent_noise(model, len(x), samples, key))
        distortions.append(distortion(model.generative(z, label), x, part.observed).mean(0).cpu().double())
        rates.append(model.prior.rate(q, z).mean(0).cpu().double())
    return torch.cat(distortions), torch.cat(rates)


def importance_weighted(
    model: MaxMarginDGM, data: Batch, samples: int, key: torch.Generator, common: bool = False
) -> Tensor:
    """log 1/K sum_k p(x, z_k) / q(z_k | x): a lower bound of log p(x) that rises to it with K.

    With `common` noise every row has the same draws, so that its figure does not depend on the rows beside it.
    """
    assert model.generative is not None
    found = []
    drawn = _latent_noise(model, 1, samples, key) if common else None
    for part in _parts(data, samples):
        x = model.prepared(part).x
        label = _label(model, part, x)
        q = model.recognition(x, part.observed, label=label).q
        z = model.latents.make(q, _latent_noise(model, len(x), samples, key) if drawn is None else drawn)
        log_weight = -distortion(model.generative(z, label), x, part.observed)
        log_weight = log_weight - sampled_rate(q, model.prior.log_prob(z), z)
        found.append(log_weight.cpu().double().logsumexp(0) - math.log(samples))
    return torch.cat(found)


def _label(model: MaxMarginDGM, part: Batch, x: Tensor) -> Tensor | None:
    """What a conditional model is told of rows: their class, or where there is none, the one that it predicts."""
    if not model.recipe.conditional:
        return None
    return model.label(torch.where(part.y == UNKNOWN, model.scores(x, part.observed).argmax(-1), part.y))


def calibration_error(scores: Tensor, y: Tensor, bins: int = 15) -> float:
    """Expected calibration error: how far the softmaxed scores' confidence is from their accuracy, by bins."""
    confidence, predicted = scores.double().softmax(-1).max(-1)
    right = (predicted == y).double()
    which = (confidence * bins).ceil().long().clamp(1, bins) - 1
    gaps = torch.zeros(bins, dtype=torch.float64, device=scores.device).index_add_(0, which, right - confidence)
    return (gaps.abs().sum() / len(y)).item()


def per_class(scores: Tensor, y: Tensor, classes: tuple[str, ...]) -> tuple[ClassFigures, ...]:
    """One line for each class."""
    predicted = scores.argmax(-1)

    def line(code: int, label: str) -> ClassFigures:
        members, claimed = y == code, predicted == code
        hits = int((members & claimed).sum())
        count, claims = int(members.sum()), int(claimed.sum())
        return ClassFigures(
            label, count, 100 * (1 - hits / count) if count else 0.0, 100 * hits / claims if claims else 0.0
        )

    return tuple(line(code, label) for code, label in enumerate(classes))


def _latent_noise(model: MaxMarginDGM, rows: int, samples: int, key: torch.Generator) -> Tensor:
    return model.latents.noise((samples, rows, model.recipe.latent_size), key)


def _parts(data: Batch, samples: int) -> Iterator[Batch]:
    size = max(1, _ROWS // samples)
    return (data.between(start, start + size) for start in range(0, len(data.x), size))


def _standard_error(x: Tensor) -> float:
    return (x.double().std(unbiased=True) / math.sqrt(len(x))).item() if len(x) > 1 else 0.0

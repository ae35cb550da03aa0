"""The worst small change of an input: where the margin is lost first.

For a linear classifier, asking for the hinge loss at x + r with the worst r of length `radius` widens the margin
by `radius` times the norm of the weights. Here the recognition network is not linear, so the direction is that
of the margin's gradient at x; the hinge loss at x + r is then part of the objective (`mmdgm.gradients`).
"""

from collections.abc import Callable

import torch
from torch import Tensor

from mmdgm.data.batches import Batch
from mmdgm.model import MaxMarginDGM
from mmdgm.objective import true_margin

Margins = Callable[[MaxMarginDGM, Tensor, Tensor, Tensor], Tensor]


def margins(model: MaxMarginDGM, x: Tensor, seen: Tensor, y: Tensor) -> Tensor:
    """F(y_n; x_n) minus the best other decision value, without dropout."""
    recognised = model.recognition(x, seen, remember=False)
    return true_margin(model.classifier(model.features(recognised)), y)


def worst_perturbation(model: MaxMarginDGM, batch: Batch, seen: Tensor, radius: float, of: Margins = margins) -> Tensor:
    """r = -radius g / |g| with g the gradient of the margins in the entries of x that are seen.

    `of` is `margins`, or the same compiled.
    """
    with torch.enable_grad():
        x = batch.x.detach().clone().requires_grad_()
        (gradient,) = torch.autograd.grad(of(model, x, seen, batch.y.clamp(min=0)).sum(), x)
    gradient = gradient * seen
    direction: Tensor = gradient / gradient.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    return -radius * direction

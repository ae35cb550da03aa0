"""The worst small change of an input: where the margin is lost first.

For a linear classifier, asking for the hinge loss at x + r with the worst r of length `radius` widens the margin
by `radius` times the norm of the weights. Here the recognition network is not linear, so the direction is that
of the margin's gradient at x; the hinge loss at x + r is then part of the objective (`mmdgm.gradients`).
"""

import torch
from torch import Tensor

from mmdgm.data.batches import Batch
from mmdgm.model import MaxMarginDGM
from mmdgm.objective import true_margin


def worst_perturbation(model: MaxMarginDGM, batch: Batch, radius: float) -> Tensor:
    """r = -radius g / |g| with g the gradient of F(y_n; x) - max_y F(y; x) in the observed entries of x."""
    with torch.enable_grad():
        x = batch.x.clone().requires_grad_()
        recognised = model.recognition(x, remember=False)
        margin = true_margin(model.classifier(model.features(recognised)), batch.y.clamp(min=0))
        (gradient,) = torch.autograd.grad(margin.sum(), x)
    gradient = gradient * batch.observed
    return -radius * gradient / gradient.norm(dim=-1, keepdim=True).clamp(min=1e-12)

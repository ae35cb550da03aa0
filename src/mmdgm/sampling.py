"""Drawing from the model: new images or rows from p(z) p(x | z), and reconstructions."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mmdgm.data.batches import Batch, values
from mmdgm.errors import InputError
from mmdgm.model import MaxMarginDGM
from mmdgm.runtime import drawing, generator


@torch.no_grad()
def sample(model: MaxMarginDGM, n: int, seed: int = 0, draw: bool = False, y: int | None = None) -> NDArray[np.float32]:
    """`n` rows: the mean of p(x | z) for z from the prior, or a draw of x with `draw`; in the data's own units.

    A conditional model draws rows of class y, or of all classes in turn.
    Under a transform they stay contrast-normalised: there is no image whose contrast could be given back.
    """
    if n < 1:
        raise InputError(f"n must be at least 1; got {n}.")
    generative = _generative(model)
    model.eval()
    device = next(model.parameters()).device
    key = generator(device, seed, "sample")
    like = torch.zeros(n, model.recipe.latent_size, device=device, dtype=model.classifier.linear.weight.dtype)
    with drawing(key):
        classes = (
            torch.arange(n, device=device) % max(1, model.told) if y is None else torch.full((n,), y, device=device)
        )
        z = model.prior.sample(like)
        p = generative(z.unsqueeze(0), model.label(classes))
        x = p.sample() if draw else p.mean
    return _in_own_units(model, x[0])


@torch.no_grad()
def reconstruct(model: MaxMarginDGM, rows: Batch, seed: int = 0) -> NDArray[np.float32]:
    """The mean of p(x | z) for one z from q(z | x) of every row, in the data's own units."""
    generative = _generative(model)
    model.eval()
    x = values(rows.x)
    contrast = model.contrast(x, rows.observed)
    prepared = model.prepared(rows).x
    label = model.label(model.scores(prepared, rows.observed).argmax(-1)) if model.told else None
    q = model.recognition(prepared, rows.observed, label=label).q
    shape = (1, len(rows.x), model.recipe.latent_size)
    z = model.latents.make(q, model.latents.noise(shape, generator(rows.x.device, seed, "reconstruct")))
    return _in_own_units(model, contrast.undo(generative(z, label).mean[0]))


class ClassLatents(NamedTuple):
    """A Gaussian of z for each class, with the moments of the mean of q(z | x) over the class's rows.

    means: (M, K). factors: (M, K, K), lower triangular, factor @ factor.T is the covariance.
    """

    means: Tensor
    factors: Tensor


@torch.no_grad()
def class_latents(model: MaxMarginDGM, rows: Batch, weights: Tensor) -> ClassLatents:
    """The moments of sum_n w_n q(z | x_n) / sum_n w_n over the rows of each class; N(0, I) for a class without rows.

    A model that is not conditional has no p(z | y); this is the Gaussian nearest to what its rows of y recognise.
    """
    model.eval()
    q = model.recognition(model.prepared(rows).x, rows.observed).q
    K, M = model.recipe.latent_size, model.classifier.linear.out_features
    means, factors = q.mean.new_zeros(M, K), torch.eye(K).to(q.mean).repeat(M, 1, 1)
    for y in range(M):
        w = weights * (rows.y == y)
        if not w.any():
            continue
        share = (w / w.sum()).unsqueeze(-1)
        means[y] = (share * q.mean).sum(0)
        apart = q.mean - means[y]
        covariance = (share * apart).T @ apart + torch.diag((share * q.variance).sum(0))
        factors[y] = torch.linalg.cholesky(covariance)
    return ClassLatents(means, factors)


@torch.no_grad()
def sample_of_classes(
    model: MaxMarginDGM, classes: Tensor, latents: ClassLatents, seed: int = 0
) -> NDArray[np.float32]:
    """A row for each of the wished classes: the mean of p(x | z) for z from that class's Gaussian, in its own units."""
    generative = _generative(model)
    model.eval()
    means = latents.means[classes]
    noise = torch.randn(means.shape, generator=generator(means.device, seed, "sample of classes"), device=means.device)
    z = means + (latents.factors[classes] @ noise.to(means).unsqueeze(-1)).squeeze(-1)
    return _in_own_units(model, generative(z.unsqueeze(0)).mean[0])


def _generative(model: MaxMarginDGM) -> torch.nn.Module:
    if model.generative is None:
        raise InputError(f"recipe '{model.recipe.name}' has no generative network (bound=false): it cannot sample.")
    return model.generative


def _in_own_units(model: MaxMarginDGM, x: Tensor) -> NDArray[np.float32]:
    decoded = model.schema.decode(x.float().cpu().numpy())
    shape = model.schema.image_shape
    return decoded.reshape(len(decoded), *shape) if shape is not None else decoded

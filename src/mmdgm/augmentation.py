"""Random distortions of training images, for the recipes that say so in their name.

An image is turned, stretched, slanted and moved a little, and its pixels are shifted along a smooth random field
(Simard, Steinkraus and Platt 2003: a field of sigma 4 and strength 34). A strength of 1 is that much.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from mmdgm.data.batches import Batch, values

DEGREES, STRETCH, SLANT, PIXELS = 12.0, 0.12, 0.12, 1.5
FIELD_SIGMA, FIELD_STRENGTH = 4.0, 34.0


def warp(batch: Batch, shape: tuple[int, ...], strength: float, key: torch.Generator) -> Batch:
    """The batch with every image distorted anew; the images must have no holes."""
    height, width, channels = *shape[:2], (shape[2] if len(shape) == 3 else 1)
    images = values(batch.x).reshape(-1, height, width, channels).permute(0, 3, 1, 2)
    grid = F.affine_grid(_affine(len(images), height, width, strength, key), list(images.shape), align_corners=False)
    grid = grid + _field(len(images), height, width, strength, key)
    warped = F.grid_sample(images, grid, align_corners=False).permute(0, 2, 3, 1)
    return batch._replace(x=warped.reshape(batch.x.shape).clamp(0, 1))


def _affine(n: int, height: int, width: int, strength: float, key: torch.Generator) -> Tensor:
    """(n, 2, 3) matrices: a turn, stretches, a slant and a move, each uniform up to its largest size."""
    u = strength * (2 * torch.rand((n, 6), generator=key, device=key.device) - 1)
    angle = math.radians(DEGREES) * u[:, 0]
    across, down, slant = (STRETCH * u[:, 1]).exp(), (STRETCH * u[:, 2]).exp(), SLANT * u[:, 3]
    cos, sin = angle.cos(), angle.sin()
    first = torch.stack([across * cos, slant * across - sin, 2 * PIXELS / width * u[:, 4]], dim=-1)
    second = torch.stack([sin, down * cos, 2 * PIXELS / height * u[:, 5]], dim=-1)
    return torch.stack([first, second], dim=1)


def _field(n: int, height: int, width: int, strength: float, key: torch.Generator) -> Tensor:
    """(n, height, width, 2): a smooth random field of displacements, in units of half an image."""
    noise = 2 * torch.rand((n, 2, height, width), generator=key, device=key.device) - 1
    smooth = _smoothing(height, key.device) @ noise @ _smoothing(width, key.device).T
    size = torch.tensor([2 / width, 2 / height], device=key.device)
    return strength * FIELD_STRENGTH * smooth.permute(0, 2, 3, 1) * size


def _smoothing(size: int, device: torch.device) -> Tensor:
    """The matrix that convolves a line of pixels with a Gaussian."""
    place = torch.arange(size, dtype=torch.float32, device=device)
    kernel = (-0.5 * ((place[:, None] - place) / FIELD_SIGMA).square()).exp()
    return kernel / (FIELD_SIGMA * math.sqrt(2 * math.pi))

"""Contrast normalisation of images, from nothing but the image itself, so that a single one can be served.

    global   y = (x - m) / s            m, s: mean and deviation of the image's pixels, all channels together
    local    then y' = (y - c) / d      c: Gaussian-weighted mean around the pixel, in its channel;
                                        d: the deviation around it, at least the image's mean one

A missing pixel has no weight, and neither has what lies outside the image.
"""

from typing import NamedTuple

import torch
from torch import Tensor

SIZE, SIGMA = 7, 2.0
"""The window of the local means, and how wide its Gaussian is (the paper's)."""
LEAST_DEVIATION = 0.01
"""Of an image with pixels in [0, 1]; a flatter one is not stretched any further."""
LEAST_LOCAL_DEVIATION = 1e-4

TRANSFORMS = ("none", "global", "local")


class Contrast(NamedTuple):
    """What an image's contrast was: (x - centre) / scale is the image normalised."""

    centre: Tensor
    scale: Tensor

    def normalise(self, x: Tensor) -> Tensor:
        """Pixels as the networks see them."""
        return (x - self.centre) / self.scale

    def undo(self, y: Tensor) -> Tensor:
        """The way back to pixels in [0, 1]."""
        return y * self.scale + self.centre


def contrast(transform: str, x: Tensor, observed: Tensor, shape: tuple[int, ...]) -> Contrast:
    """The contrast of (B, D) images of that shape (height, width, and channels if there are any)."""
    if transform == "none":
        return Contrast(torch.zeros_like(x[:, :1]), torch.ones_like(x[:, :1]))
    whole = _global(x, observed)
    if transform == "global":
        return whole
    around = _local(whole.normalise(x), observed, shape)
    return Contrast(whole.centre + whole.scale * around.centre, whole.scale * around.scale)


def _global(x: Tensor, observed: Tensor) -> Contrast:
    weight = observed.to(x.dtype)
    count = weight.sum(-1, keepdim=True).clamp(min=1)
    centre = (x * weight).sum(-1, keepdim=True) / count
    variance = ((x - centre).square() * weight).sum(-1, keepdim=True) / count
    return Contrast(centre, variance.sqrt().clamp(min=LEAST_DEVIATION))


def _local(x: Tensor, observed: Tensor, shape: tuple[int, ...]) -> Contrast:
    height, width = shape[:2]
    image = x.reshape(len(x), height, width, -1).permute(0, 3, 1, 2)
    one_for_all = observed[:1] if observed.stride(0) == 0 else observed
    weight = one_for_all.to(x.dtype).reshape(len(one_for_all), height, width, -1).permute(0, 3, 1, 2)
    down, across = _window(height, x), _window(width, x)
    total = (down @ weight @ across).clamp(min=1e-12)

    def around(values: Tensor) -> Tensor:
        return down @ (values * weight) @ across / total

    centre = around(image)
    deviation = around((image - centre).square()).sqrt()
    mean = (deviation * weight).sum((1, 2, 3), keepdim=True) / weight.sum((1, 2, 3), keepdim=True).clamp(min=1)
    divisor = torch.maximum(deviation, mean).clamp(min=LEAST_LOCAL_DEVIATION)
    centre, divisor = (part.permute(0, 2, 3, 1).reshape(len(x), -1) for part in (centre, divisor))
    return Contrast(centre, divisor)


def _window(size: int, like: Tensor) -> Tensor:
    """The symmetric matrix that sums a line of pixels with the weights of the window."""
    place = torch.arange(size, dtype=like.dtype, device=like.device)
    distance = (place[:, None] - place).abs()
    return (-0.5 * (distance / SIGMA).square()).exp() * (distance <= SIZE // 2)

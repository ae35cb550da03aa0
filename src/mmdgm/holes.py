"""Random holes that hide parts of training rows from the recognition network.

A bound holds for any q, so q(z | what is seen) may see less than the distortion pays for: the network learns to say
what a row with holes is, and what its class is, in one look. Images have holes of four kinds, none a rectangle
with upright sides (the experiments with rectangles test what was never trained on):

    scattered   every pixel by itself, with a rate between 0.1 and 0.95
    ellipse     of any place, size and turn
    half        all on one side of a line
    band        all between two parallel lines

Rows of a table have scattered holes; a column is seen or hidden whole.
"""

import math

import torch
from torch import Tensor

from mmdgm.data.dataset import Schema

_KINDS = 4
_LEAST_RATE, _MOST_RATE = 0.1, 0.95


def random_holes(rows: int, schema: Schema, share: float, key: torch.Generator) -> Tensor:
    """(rows, D) booleans, true where hidden; a `share` of the rows has a hole."""
    u = torch.rand((rows, 1), generator=key, device=key.device)
    some = u < share
    rate = _LEAST_RATE + (_MOST_RATE - _LEAST_RATE) * torch.rand((rows, 1), generator=key, device=key.device)
    if schema.image_shape is None:
        widths = torch.tensor([column.width for column in schema.columns], device=key.device)
        by_column = torch.rand((rows, len(widths)), generator=key, device=key.device) < rate
        return by_column.repeat_interleave(widths, dim=1, output_size=schema.width) & some
    height, width, *channels = schema.image_shape
    scattered = torch.rand((rows, height * width), generator=key, device=key.device) < rate
    kind = (u / max(share, 1e-12) * _KINDS).long().clamp(max=_KINDS - 1)  # u is uniform below the share, too
    shaped = _shapes(kind, rows, height, width, key)
    hidden = torch.where(kind == 0, scattered, shaped) & some
    return hidden.repeat_interleave(channels[0], dim=1) if channels else hidden


def _shapes(kind: Tensor, rows: int, height: int, width: int, key: torch.Generator) -> Tensor:
    """Ellipses, halves and bands: along a turned axis, a, and across it, b, in half images from a random centre."""

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand((rows, 1), generator=key, device=key.device)

    y = torch.linspace(-1, 1, height, device=key.device).repeat_interleave(width)
    x = torch.linspace(-1, 1, width, device=key.device).repeat(height)
    angle = uniform(0, 2 * math.pi)
    across_x, across_y = x - uniform(-0.5, 0.5), y - uniform(-0.5, 0.5)
    a = angle.cos() * across_x + angle.sin() * across_y
    b = angle.cos() * across_y - angle.sin() * across_x
    ellipse = (a / uniform(0.15, 0.8)).square() + (b / uniform(0.15, 0.8)).square() < 1
    half = a > 0
    band = a.abs() < uniform(0.1, 0.5)
    return torch.where(kind == 1, ellipse, torch.where(kind == 2, half, band))

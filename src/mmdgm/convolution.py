"""Convolutional stacks: convolution and pooling downwards, unpooling and convolution upwards.

Images are (B, C, H, W) tensors whose memory is laid out as (B, H, W, C), as rows of pixels are: from rows to images
and back nothing is copied, and the fast kernels want it so.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mmdgm.errors import InputError
from mmdgm.networks import ACTIVATIONS, GAIN, MLP, BatchNorm, Unnormalised, drop, full, linear
from mmdgm.recipes.layers import Convolution

Shape = tuple[int, int, int]
"""Channels, height, width."""

_FEW_OUTPUTS = 4
"""An unpooled convolution to at most this many channels is a matrix product whose results are added in place."""


def to_images(rows: Tensor, shape: Shape) -> Tensor:
    """(B, H W C) rows as (B, C, H, W) images, without a copy."""
    channels, height, width = shape
    return rows.reshape(-1, height, width, channels).permute(0, 3, 1, 2)


def to_rows(images: Tensor) -> Tensor:
    """The way back."""
    return images.permute(0, 2, 3, 1).reshape(len(images), -1)


def convolve(h: Tensor, weight: Tensor, padding: int) -> Tensor:
    """The convolution of h with (out, in, k, k) weights, stride 1.

    From one channel it is a matrix product over patches, whose weights' gradient is several times faster at large
    batches; from three that costs more than it saves.
    """
    outputs, inputs, k, _ = weight.shape
    if inputs > 1:
        return F.conv2d(h, weight, padding=padding)
    padded = F.pad(h.permute(0, 2, 3, 1), (0, 0, padding, padding, padding, padding))
    patches = padded.unfold(1, k, 1).unfold(2, k, 1)  # (B, H', W', in, k, k)
    height, width = patches.shape[1:3]
    product = patches.reshape(-1, k * k) @ weight.reshape(outputs, -1).t()
    return product.view(len(h), height, width, outputs).permute(0, 3, 1, 2)


def unpool_and_convolve(h: Tensor, weight: Tensor, crop: int) -> Tensor:
    """Every value in the corner of a 2 x 2 block of zeros, then the `full` convolution, less `crop` on each side.

    The zeros are never made: with (in, out, k, k) weights this is a transposed convolution of stride 2.
    """
    inputs, outputs, k, _ = weight.shape
    if outputs > _FEW_OUTPUTS:
        return F.conv_transpose2d(h, weight, stride=2, padding=crop, output_padding=1)
    n, _, height, width = h.shape
    half = (k + 1) // 2
    by_parity = F.pad(weight, (0, 1, 0, 1)).reshape(inputs, outputs, half, 2, half, 2)
    by_parity = by_parity.permute(0, 2, 4, 3, 5, 1).reshape(inputs, -1)
    product = h.permute(0, 2, 3, 1).reshape(-1, inputs) @ by_parity
    parts = product.view(n, height, width, half, half, 4 * outputs)
    rows, columns = height + half - 1, width + half - 1
    total: Tensor = _Overlap.apply(parts)
    blocks = total.view(n, rows, columns, 2, 2, outputs)
    image = blocks.permute(0, 5, 1, 3, 2, 4).reshape(n, outputs, 2 * rows, 2 * columns)
    return image[:, :, crop : 2 * rows - crop, crop : 2 * columns - crop]


class _Overlap(torch.autograd.Function):
    """(n, h, w, u, v, c) to (n, h + u - 1, w + v - 1, c): entry (i, j, u, v) is added at (i + u, j + v).

    The gradient is a gathering of windows, which torch's own backward pass would find as a long chain of scatters: a
    fifth of a training step.
    """

    @staticmethod
    def forward(context: Any, parts: Tensor) -> Tensor:
        """The sums, in float32 and then as precise as the parts."""
        *_, u, v, _ = context.shape = parts.shape
        height, width = parts.shape[1:3]
        padded = F.pad(parts, (0, 0, 0, 0, 0, 0, v - 1, v - 1, u - 1, u - 1))
        total = torch.zeros((), device=parts.device)
        for a in range(u):
            for b in range(v):
                top, left = u - 1 - a, v - 1 - b
                total = total + full(padded[:, top : top + height + u - 1, left : left + width + v - 1, a, b])
        return total.to(parts.dtype)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        """Every entry has the gradient of the sum that it went into."""
        *_, u, v, _ = context.shape
        return gradient.unfold(1, u, 1).unfold(2, v, 1).permute(0, 1, 2, 4, 5, 3)


def pool(h: Tensor) -> Tensor:
    """The largest value of every 2 x 2 block; of equal ones the first has the gradient."""
    largest: Tensor = _Pool.apply(h)
    return largest


class _Pool(torch.autograd.Function):
    """Comparisons, and where the largest value stood as a number of the maps' own type.

    Compiled, that is a fifth of the time of the gradient of `amax`; with a whole number for the place the loops would
    not be vectorised.
    """

    @staticmethod
    def forward(context: Any, h: Tensor) -> Tensor:
        """The largest values."""
        a, b, c, d = (corner.permute(0, 2, 3, 1) for corner in _corners(h))
        largest = torch.maximum(torch.maximum(a, b), torch.maximum(c, d))
        place = torch.where(a == largest, 0.0, torch.where(b == largest, 1.0, torch.where(c == largest, 2.0, 3.0)))
        context.save_for_backward(place.to(h.dtype))
        return largest.permute(0, 3, 1, 2)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        """The gradient where the largest value was, and zeros around it."""
        (place,) = context.saved_tensors
        g = gradient.permute(0, 2, 3, 1)
        zero = torch.zeros((), dtype=g.dtype, device=g.device)
        a, b, c, d = (torch.where(place == corner, g, zero) for corner in range(4))
        n, height, width, _ = g.shape
        blocks = torch.stack([torch.stack([a, b], dim=3), torch.stack([c, d], dim=3)], dim=2)
        return blocks.reshape(n, 2 * height, 2 * width, -1).permute(0, 3, 1, 2)


def _corners(h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The four values of every 2 x 2 block: top left, top right, bottom left, bottom right."""
    return h[:, :, ::2, ::2], h[:, :, ::2, 1::2], h[:, :, 1::2, ::2], h[:, :, 1::2, 1::2]


class Bias(nn.Module):
    """What stands in the place of `BatchNorm` where there is none: a bias for each channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, h: Tensor, remember: bool = True) -> Tensor:  # noqa: ARG002 - as in BatchNorm
        """h + b."""
        return h + self.bias.to(h.dtype)[:, None, None]


class Layer(nn.Module):
    """Unpooling, convolution, pooling, normalisation or bias, in the paper's order; the activation is the stack's."""

    def __init__(self, layer: Convolution, inputs: int, outputs: int, gain: float, normalise: bool) -> None:
        super().__init__()
        self.layer = layer
        k = layer.kernel
        shape = (inputs, outputs, k, k) if layer.up else (outputs, inputs, k, k)
        self.weight = nn.Parameter(torch.empty(shape))
        taps = inputs * k * k / (4 if layer.up else 1)  # three of four unpooled values are zero
        nn.init.normal_(self.weight, std=gain / math.sqrt(taps))
        self.norm = BatchNorm(outputs) if normalise else Bias(outputs)

    def forward(self, h: Tensor, remember: bool = True) -> Tensor:
        """The maps before the activation."""
        k, padding = self.layer.kernel, self.layer.padding
        around = {"valid": 0, "same": k // 2, "full": k - 1}[padding]
        if self.layer.up:
            h = unpool_and_convolve(h, self.weight, crop=k - 1 - around)
        else:
            h = convolve(h, self.weight, around)
        if self.layer.pool:
            h = pool(h)
        made: Tensor = self.norm(h, remember)
        return made


class ConvolutionStack(nn.Module):
    """The recognition network's way down: convolutional layers, then fully connected ones.

    Returns the last map and every fully connected layer's activations, as rows.
    """

    def __init__(
        self,
        shape: Shape,
        layers: Sequence[Convolution],
        hidden: Sequence[int],
        activation: str,
        normalise: bool,
        rates: tuple[float, float],
    ) -> None:
        super().__init__()
        shapes = shapes_along(shape, layers, "convolutions")
        self.shape, self.activation, gain = shape, ACTIVATIONS[activation], GAIN[activation]
        self.maps = nn.ModuleList(
            Layer(layer, before[0], after[0], gain, normalise)
            for layer, (before, after) in zip(layers, itertools.pairwise(shapes), strict=True)
        )
        flat = math.prod(shapes[-1])
        of_maps, of_hidden = rates
        self.fully = MLP(flat, hidden, activation, normalise, of_hidden)
        self.sizes = (flat, *hidden)
        self.drops = tuple((math.prod(s), of_maps * layer.drop) for s, layer in zip(shapes[1:], layers, strict=True))
        self.drops += self.fully.drops

    def filters(self) -> Tensor:
        """The first layer's weights, (out, in, k, k)."""
        return next(self.maps[0].parameters()).detach()

    def forward(self, x: Tensor, dropout: Sequence[Tensor | None] = (), remember: bool = True) -> list[Tensor]:
        """The last map and the hidden activations; `dropout` holds a mask for each layer, or is empty."""
        h = to_images(x, self.shape)
        for i, layer in enumerate(self.maps):
            h = self.activation(layer(h, remember))
            h = _drop_images(h, dropout[i] if dropout else None)
        last = to_rows(h)
        return [last, *self.fully(last, dropout[len(self.maps) :], remember)] if self.fully.layers else [last]


class UnpoolingStack(nn.Module):
    """The generative network's way up: a linear map to the smallest map, then convolutional layers to the pixels.

    `outputs` numbers come out for each entry of x, all first ones before all second ones.
    """

    def __init__(
        self,
        width: int,
        channels: int,
        shape: Shape,
        layers: Sequence[Convolution],
        outputs: int,
        activation: str,
        normalise: bool,
    ) -> None:
        super().__init__()
        self.outputs, self.activation, gain = outputs, ACTIVATIONS[activation], GAIN[activation]
        layers = [*layers[:-1], layers[-1]._replace(channels=outputs * shape[0])]
        self.smallest = (channels, *smallest_size(shape, layers))
        self.first = linear(width, math.prod(self.smallest), gain)
        self.first_norm = BatchNorm(self.smallest[0]) if normalise else Unnormalised()
        shapes = shapes_along(self.smallest, layers, "generative_convolutions")
        self.maps = nn.ModuleList(
            Layer(layer, before[0], after[0], gain if i + 1 < len(layers) else 1.0, normalise and i + 1 < len(layers))
            for i, (layer, (before, after)) in enumerate(zip(layers, itertools.pairwise(shapes), strict=True))
        )

    def forward(self, h: Tensor) -> Tensor:
        """(N, width) to (N, outputs * H * W * C)."""
        h = self.activation(self.first_norm(to_images(self.first(h), self.smallest)))
        *inner, last = self.maps
        for layer in inner:
            h = self.activation(layer(h))
        parts = last(h).chunk(self.outputs, dim=1)
        return torch.cat([to_rows(part) for part in parts], dim=1)


def shapes_along(shape: Shape, layers: Sequence[Convolution], field: str) -> list[Shape]:
    """The shapes before, between and after the layers; pooling an odd size, or a size of nothing, is refused."""
    shapes = [shape]
    for number, layer in enumerate(layers, start=1):
        _, height, width = shapes[-1]
        unpooled = [layer._replace(pool=False).size_after(size) for size in (height, width)]
        if min(unpooled) < 1:
            raise InputError(
                f"{field}: layer {number} ({layer}) has a kernel of {layer.kernel}, but its input is only "
                f"{height} x {width}. Use fewer layers, or same padding."
            )
        if layer.pool and any(size % 2 for size in unpooled):
            raise InputError(
                f"{field}: layer {number} ({layer}) pools {unpooled[0]} x {unpooled[1]}, which cannot be halved. "
                "Leave out its pool, or change the padding of a layer before it."
            )
        if layer.channels is None:
            raise InputError(f"{field}: layer {number} ({layer}): only the last generative layer may say 'out'.")
        shapes.append((layer.channels, layer.size_after(height), layer.size_after(width)))
    return shapes


def smallest_size(shape: Shape, layers: Sequence[Convolution]) -> tuple[int, int]:
    """Height and width of the map from which the generative layers lead to images of that shape."""
    _, *target = shape
    found = [next((n for n in range(1, size + 1) if _size_along(n, layers) == size), None) for size in target]
    height, width = found
    if height is None or width is None:
        reached = sorted({_size_along(n, layers) for n in range(1, max(target) + 1)})
        raise InputError(
            f"generative_convolutions cannot end at {target[0]} x {target[1]} pixels: from maps of 1, 2, 3 ... they "
            f"lead to {', '.join(map(str, reached[:8]))} ... Change an up or a padding, or the size of the images."
        )
    return height, width


def _size_along(size: int, layers: Sequence[Convolution]) -> int:
    for layer in layers:
        size = layer.size_after(size)
    return size


def _drop_images(h: Tensor, mask: Tensor | None) -> Tensor:
    return h if mask is None else drop(h, to_images(mask, (h.shape[1], h.shape[2], h.shape[3])))

"""How a recipe writes a convolutional layer: KERNELxCHANNELS, then words with colons between them.

5x32:valid:pool:drop     32 channels, 5 x 5, no padding; then the largest of every 2 x 2; dropout after it
3x64                     64 channels, 3 x 3, padded so that the size stays
5xout:up:full            every value into a 2 x 2 block of zeros first; padded so that the kernel may stand half
                         outside; as many channels as the likelihood asks for (the last generative layer)
"""

import re
from typing import Literal, NamedTuple

Padding = Literal["same", "valid", "full"]
_PADDINGS: tuple[Padding, ...] = ("same", "valid", "full")

LAYER_RULE = "layers such as 5x32:valid:pool:drop, 3x64 or 5xout:up:full (odd kernels)"

_FORM = re.compile(r"(\d+)x(\d+|out)((?::(?:same|valid|full|pool|up|drop))*)")


class Convolution(NamedTuple):
    """One layer: unpooling if `up`, the convolution, pooling if `pool`; dropout after it if `drop`."""

    kernel: int
    channels: int | None
    padding: Padding = "same"
    pool: bool = False
    up: bool = False
    drop: bool = False

    def size_after(self, size: int) -> int:
        """The height (or width) of what comes out; pooling needs an even one."""
        size = 2 * size if self.up else size
        size += {"same": 0, "valid": 1 - self.kernel, "full": self.kernel - 1}[self.padding]
        return size // 2 if self.pool else size

    def mirrored(self, channels: int | None) -> "Convolution":
        """The layer that undoes this one's shape, from this one's channels to `channels`."""
        undone: dict[Padding, Padding] = {"same": "same", "valid": "full", "full": "valid"}
        return Convolution(self.kernel, channels, undone[self.padding], up=self.pool, pool=self.up)

    def __str__(self) -> str:
        words: list[str] = [self.padding] if self.padding != "same" else []
        words += [word for word in ("up", "pool", "drop") if getattr(self, word)]
        return ":".join([f"{self.kernel}x{self.channels or 'out'}", *words])


def parse_layer(text: str) -> Convolution | None:
    """The layer that a text describes, or nothing if it describes none."""
    found = _FORM.fullmatch(text)
    if not found:
        return None
    kernel, channels, words = int(found[1]), found[2], found[3].split(":")[1:]
    paddings = [padding for padding in _PADDINGS if padding in words]
    count = None if channels == "out" else int(channels)
    if kernel % 2 == 0 or count == 0 or len(paddings) > 1 or len(set(words)) < len(words):
        return None
    padding: Padding = paddings[0] if paddings else "same"
    return Convolution(kernel, count, padding, "pool" in words, "up" in words, "drop" in words)


def is_layer(text: str) -> bool:
    """Whether a text describes a layer."""
    return parse_layer(text) is not None


def layers(texts: tuple[str, ...]) -> tuple[Convolution, ...]:
    """The layers of a recipe, whose texts were checked when it was made."""
    return tuple(layer for layer in map(parse_layer, texts) if layer is not None)


def mirror(encoder: tuple[Convolution, ...]) -> tuple[Convolution, ...]:
    """The generative layers for these recognition layers: last to first, each undone, the last one to the pixels."""
    channels = [None, *(layer.channels for layer in encoder)][: len(encoder)]
    return tuple(layer.mirrored(c) for layer, c in zip(reversed(encoder), reversed(channels), strict=True))

"""Patterns of holes for measuring, as the paper's section 4.4 and appendix C have them, and masks of the user's own.

    rect:12         a square of 12 x 12 pixels in the middle; its corner is (size - 12) / 2, rounded down
    rect:6x10       6 high, 10 wide, in the middle
    rect:6x10@3,4   the same with its top left corner in row 3, column 4
    drop:0.8        every pixel or column by itself, with that probability
    half:left       left, right, top or bottom
    mask:FILE       an .npy, or an .npz with an array 'mask': true (or 1) where a value is missing, in one row or all

Masks are true where a value is missing, as in `numpy.ma`.
"""

import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.dataset import Schema
from mmdgm.errors import InputError

Mask = NDArray[np.bool_]
PATTERNS = "rect:SIZE, rect:HxW@TOP,LEFT, drop:SHARE, half:left|right|top|bottom or mask:FILE"
_SIDES = ("left", "right", "top", "bottom")


@dataclass(frozen=True)
class Pattern:
    """Where the holes are; `text` is how it was asked for."""

    text: str
    _make: Callable[[int, Schema, np.random.Generator], Mask]

    def mask(self, rows: int, schema: Schema, seed: int) -> Mask:
        """(rows, values of a row) booleans, true where missing; the same for the same seed."""
        return self._make(rows, schema, np.random.default_rng([seed, 20151207]))


def parse_pattern(text: str) -> Pattern:
    """The pattern that a text such as rect:12 describes."""
    kind, _, rest = text.partition(":")
    if kind == "drop":
        return Pattern(text, _drop(text, rest))
    if kind == "half" and rest in _SIDES:
        return Pattern(text, _half(text, rest))
    found = re.fullmatch(r"(\d+)(?:x(\d+))?(?:@(\d+),(\d+))?", rest)
    if kind == "rect" and found:
        height, width, top, left = (None if part is None else int(part) for part in found.groups())
        assert height is not None
        return Pattern(text, _rectangle(text, (height, width or height), None if top is None else (top, left or 0)))
    if kind == "mask" and rest:
        mask = load_mask(Path(rest))
        return Pattern(text, lambda rows, schema, _: fitted_mask(mask, rows, schema, text))
    raise InputError(f"--pattern must be {PATTERNS}; got '{text}'.")


def _drop(text: str, share: str) -> Callable[[int, Schema, np.random.Generator], Mask]:
    try:
        probability = float(share)
    except ValueError:
        probability = -1.0
    if not 0 < probability <= 1:
        raise InputError(f"--pattern drop:SHARE needs a share above 0 and at most 1, such as drop:0.8; got '{text}'.")
    return lambda rows, schema, rng: rng.random((rows, schema.raw_width)) < probability


def _half(text: str, side: str) -> Callable[[int, Schema, np.random.Generator], Mask]:
    def make(rows: int, schema: Schema, _: np.random.Generator) -> Mask:
        height, width = image_size(schema, text)
        image = np.zeros((height, width), dtype=bool)
        where: dict[str, tuple[slice, slice]] = {
            "left": (slice(None), slice(0, width // 2)),
            "right": (slice(None), slice(width // 2, width)),
            "top": (slice(0, height // 2), slice(None)),
            "bottom": (slice(height // 2, height), slice(None)),
        }
        image[where[side]] = True
        return _for_all(image, rows, schema)

    return make


def _rectangle(
    text: str, size: tuple[int, int], corner: tuple[int, int] | None
) -> Callable[[int, Schema, np.random.Generator], Mask]:
    def make(rows: int, schema: Schema, _: np.random.Generator) -> Mask:
        whole = image_size(schema, text)
        place = corner or ((whole[0] - size[0]) // 2, (whole[1] - size[1]) // 2)
        ends = [start + length for start, length in zip(place, size, strict=True)]
        if min(size) < 1 or min(place) < 0 or any(end > most for end, most in zip(ends, whole, strict=True)):
            raise InputError(
                f"--pattern {text} does not lie within images of {whole[0]} x {whole[1]} pixels; choose a smaller one."
            )
        image = np.zeros(whole, dtype=bool)
        image[place[0] : ends[0], place[1] : ends[1]] = True
        return _for_all(image, rows, schema)

    return make


def image_size(schema: Schema, text: str) -> tuple[int, int]:
    """Height and width of the images that a pattern is about."""
    if schema.image_shape is None:
        raise InputError(f"--pattern {text} is for images, but the data are a table; use drop:SHARE or mask:FILE.")
    return schema.image_shape[0], schema.image_shape[1]


def _for_all(image: Mask, rows: int, schema: Schema) -> Mask:
    """One image's mask for all rows and channels."""
    channels = schema.width // image.size
    return np.broadcast_to(image.reshape(-1).repeat(channels), (rows, schema.width)).copy()


def load_mask(path: Path) -> Mask:
    """The mask in an .npy or .npz file."""
    try:
        stored = np.load(path, allow_pickle=False)
        if path.suffix.lower() == ".npz":
            if "mask" not in stored.files:
                raise InputError(
                    f"'{path}' must hold an array 'mask'; it holds {', '.join(stored.files) or 'nothing'}."
                )
            stored = stored["mask"]
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"the mask file '{path}' does not exist.") from None
    except (ValueError, OSError, zipfile.BadZipFile, EOFError):
        raise InputError(f"the mask file '{path}' cannot be read as .npy, or .npz with an array 'mask'.") from None
    if stored.dtype.kind not in "biuf" or not np.isin(stored, (0, 1)).all():
        raise InputError(f"the mask in '{path}' must hold booleans, or 0 and 1; its type is {stored.dtype}.")
    mask: Mask = stored.astype(bool)
    return mask


def fitted_mask(mask: Mask, rows: int, schema: Schema, what: str) -> Mask:
    """A mask for one row or for each, as (rows, values of a row); one of pixels holds for every channel."""
    width = schema.raw_width
    row = schema.image_shape or (width,)
    for own in {row, row[:2], (width,)}:
        if mask.shape in (own, (rows, *own)):
            by_row = mask.reshape(-1, int(np.prod(own)))
            return np.broadcast_to(by_row.repeat(width // by_row.shape[1], axis=1), (rows, width)).copy()
    raise InputError(
        f"{what}: the mask must have the shape {row} of one row or {(rows, *row)} of all; it has {mask.shape}."
    )

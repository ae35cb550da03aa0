"""SVHN, format 2: cropped digits, with or without the extra training images.

Validation rows are the paper's: with the extra images 400 of each class from train and 200 from extra, without
them 600 from train. Which ones is drawn once and for all, so that every run holds back the same.
"""

import io
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.dataset import Dataset, Schema
from mmdgm.data.download import Published, Say, get, is_as_published
from mmdgm.errors import WorkError

CLASSES = tuple("0123456789")
IMAGE = (32, 32, 3)
VALID_PER_CLASS = {"svhn": {"train": 600}, "svhn-extra": {"train": 400, "extra": 200}}

Part = tuple[NDArray[np.uint8], NDArray[np.int64]]


def read_mat(content: bytes) -> Part:
    """Images (N, 32, 32, 3) and labels of a .mat file, in which the digit 0 has the label 10."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        found = loadmat(io.BytesIO(content), variable_names=("X", "y"))
        x, y = found["X"], found["y"].reshape(-1).astype(np.int64)
    except (MatReadError, zlib.error, ValueError, KeyError, NotImplementedError, TypeError, OSError) as error:
        raise WorkError(f"it is no .mat file with X and y ({error})") from None
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[:3] != IMAGE:
        raise WorkError(f"X must be bytes of shape 32 x 32 x 3 x N; it is {x.dtype} of {x.shape}")
    if len(y) != x.shape[3] or not len(y) or y.min() < 1 or y.max() > 10:
        raise WorkError(f"y must hold a label from 1 to 10 for each of the {x.shape[3]} images")
    return np.ascontiguousarray(x.transpose(3, 0, 1, 2)), y % 10


def _problem(content: bytes) -> str:
    try:
        read_mat(content)
    except WorkError as error:
        return str(error)
    return ""


def _published(name: str, parts: dict[str, str]) -> Published:
    return Published(
        name=name,
        files={f"{part}_32x32.mat": md5 for part, md5 in parts.items()},
        mirrors=("http://ufldl.stanford.edu/housenumbers/", "https://ufldl.stanford.edu/housenumbers/"),
        algorithm="md5",
        suffix="",
        layout=_problem,
    )


_OFFICIAL = {"train": "e26dedcc434d2e4c54c9b2d4a06d8373", "test": "eb5a983be6a315427106f1b164d9cef3"}
SVHN = _published("svhn", _OFFICIAL)
SVHN_EXTRA = _published("svhn-extra", {**_OFFICIAL, "extra": "a93ce644f1a588dc4d68dda5feec44a7"})


def load_svhn(published: Published, folder: Path | None, say: Say) -> Dataset:
    """All rows: those for training, then the paper's validation rows, then the test rows."""
    files = get(published, folder, say)

    def part(name: str) -> Part:
        file = f"{name}_32x32.mat"
        content = (files / file).read_bytes()
        if not is_as_published(published, file, content):
            say(f"warning: '{file}' is not the published file (its md5 differs); runs carry the hash of what it holds")
        return read_mat(content)

    return arranged(published.name, part)


def arranged(name: str, part: Callable[[str], Part]) -> Dataset:
    """The parts in one array, each read, copied and let go before the next, so that memory holds little twice."""
    held_back = VALID_PER_CLASS[name]
    learning: list[Part] = []
    valid: list[Part] = []
    for source, per_class in held_back.items():
        x, y = part(source)
        rows = _some_of_each_class(y, per_class, source)
        rest = np.setdiff1d(np.arange(len(y)), rows)
        valid.append((x[rows], y[rows]))
        learning.append((_squeezed(x, rest), y[rest]))
    test = part("test")
    pieces = [*learning, *valid, test]
    total = sum(len(y) for _, y in pieces)
    x = np.empty((total, *IMAGE), dtype=np.uint8)
    y = np.concatenate([labels for _, labels in pieces])
    counts = {"valid": sum(len(labels) for _, labels in valid), "test": len(test[1])}
    del learning, valid, test
    end = total
    while pieces:  # last to first, so that each can be let go once it is copied
        images, _ = pieces.pop()
        x[end - len(images) : end] = images
        end -= len(images)
        del images
    return Dataset(name, x, y, CLASSES, Schema(image_shape=IMAGE), counts["test"], counts["valid"])


def _squeezed(x: NDArray[np.uint8], rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Some rows, in order, moved to the front of the same memory."""
    for to, row in enumerate(rows):
        if to != row:
            x[to] = x[row]
    return x[: len(rows)]


def _some_of_each_class(y: NDArray[np.int64], count: int, source: str) -> NDArray[np.int64]:
    rng = np.random.default_rng(20151207)
    chosen = []
    for label in range(len(CLASSES)):
        members = np.flatnonzero(y == label)
        if len(members) <= count:
            raise WorkError(f"{source} must hold more than {count} images of the digit {label}; it has {len(members)}.")
        chosen.append(rng.permutation(members)[:count])
    return np.sort(np.concatenate(chosen))

"""Where data come from: names (mnist, fashion-mnist, svhn, digits) and the user's own files."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from mmdgm.data.dataset import Dataset, Labels, Schema, Values
from mmdgm.data.download import FASHION_MNIST, MNIST, Published, Say, get, is_cached
from mmdgm.data.files import load_file
from mmdgm.data.svhn import SVHN, SVHN_EXTRA, load_svhn
from mmdgm.errors import InputError, WorkError, unknown


@dataclass(frozen=True)
class Source:
    """A data set with a name."""

    name: str
    about: str
    published: Published | None
    load: Callable[[Path | None, Say], Dataset]

    @property
    def at_hand(self) -> bool:
        """Whether loading it needs no download."""
        return self.published is None or is_cached(self.published)


def _idx_source(published: Published, about: str, classes: tuple[str, ...]) -> Source:
    def load(folder: Path | None, say: Say) -> Dataset:
        files = get(published, folder, say)
        x = np.concatenate([_idx(files / f"{part}-images-idx3-ubyte", 3) for part in ("train", "t10k")])
        y = np.concatenate([_idx(files / f"{part}-labels-idx1-ubyte", 1) for part in ("train", "t10k")])
        schema = Schema(image_shape=x.shape[1:])
        return Dataset(published.name, x, y.astype(np.int64), classes, schema, 10_000, 10_000)

    return Source(published.name, about, published, load)


def _idx(path: Path, dimensions: int) -> Values:
    """An array of bytes in the IDX format: 0, 0, 8 (bytes), the number of dimensions, their sizes, the values."""
    content = path.read_bytes()
    if content[:4] != bytes([0, 0, 8, dimensions]):
        raise WorkError(f"'{path}' is not an IDX file of {dimensions} dimensions; remove it and get it again.")
    shape = np.frombuffer(content, ">u4", count=dimensions, offset=4).astype(int)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def _digits(folder: Path | None, say: Say) -> Dataset:  # noqa: ARG001 - every source is called alike
    from sklearn.datasets import load_digits

    if folder is not None:
        raise InputError("--from: the digits come with scikit-learn; there is nothing to get. Leave it out.")
    bunch = load_digits()
    x: Values = (bunch.images / 16).astype(np.float32)
    y: Labels = bunch.target.astype(np.int64)
    return Dataset("digits", x, y, _DIGITS, Schema(image_shape=(8, 8)))


_DIGITS = tuple("0123456789")
_FASHION = ("top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")

SOURCES = {
    source.name: source
    for source in (
        _idx_source(MNIST, "70,000 handwritten digits, 28 x 28 grey pixels, 10,000 of them for testing", _DIGITS),
        _idx_source(FASHION_MNIST, "70,000 pictures of clothes, 28 x 28 grey pixels, 10,000 for testing", _FASHION),
        Source(
            "svhn", "99,289 house-number digits, 32 x 32 in colour, 26,032 for testing", SVHN, partial(load_svhn, SVHN)
        ),
        Source(
            "svhn-extra",
            "the same and 531,131 easier ones for training; needs 8 GiB of memory",
            SVHN_EXTRA,
            partial(load_svhn, SVHN_EXTRA),
        ),
        Source("digits", "1,797 handwritten digits, 8 x 8 grey pixels, from scikit-learn", None, _digits),
    )
}


def remembered_as(name_or_path: str) -> str:
    """What finds the same data again from another folder: a name as it is, a path in full."""
    return name_or_path if name_or_path in SOURCES else str(Path(name_or_path).resolve())


def load(name_or_path: str, label: str | None = None, say: Say = lambda _: None, usual: str | None = None) -> Dataset:
    """A data set by its name, or from a file or folder of the user's (see `mmdgm.data.files`)."""
    if name_or_path in SOURCES:
        if label is not None:
            raise InputError(f"--label is for tables; '{name_or_path}' has its labels already.")
        return SOURCES[name_or_path].load(None, say)
    path = Path(name_or_path)
    if path.exists():
        return load_file(path, label, usual)
    if path.suffix or len(path.parts) > 1:
        raise InputError(f"--data: there is no file or folder '{name_or_path}'.")
    raise unknown("data", name_or_path, SOURCES)

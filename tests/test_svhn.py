"""SVHN's files and their split, and contrast normalisation against a slow double loop."""

import hashlib
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import savemat

from mmdgm.data import download, svhn
from mmdgm.data.sources import SOURCES
from mmdgm.data.splits import split
from mmdgm.data.svhn import arranged, read_mat
from mmdgm.data.transforms import contrast
from mmdgm.errors import InputError, WorkError


def mat(path: Path, n: int, first: int = 0) -> Path:
    """Images whose every pixel is their number, labels 1 to 10 in turn."""
    number = np.arange(first, first + n)
    x = np.broadcast_to(number.astype(np.uint8), (32, 32, 3, n))
    savemat(path, {"X": x, "y": (number % 10 + 1).reshape(-1, 1)})
    return path


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(download, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(svhn, "VALID_PER_CLASS", {"svhn": {"train": 2}, "svhn-extra": {"train": 2, "extra": 1}})
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, n, first in (("train", 50, 0), ("test", 20, 60), ("extra", 40, 100)):
        mat(folder / f"{name}_32x32.mat", n, first)
    return folder


def test_a_file_as_published(tmp_path: Path) -> None:
    x = np.arange(32 * 32 * 3 * 4, dtype=np.uint32).reshape(32, 32, 3, 4).astype(np.uint8)
    savemat(tmp_path / "x.mat", {"X": x, "y": np.array([[1], [9], [10], [2]])})
    read, y = read_mat((tmp_path / "x.mat").read_bytes())
    assert read.shape == (4, 32, 32, 3)
    assert read[2, 5, 7, 1] == x[5, 7, 1, 2]
    assert y.tolist() == [1, 9, 0, 2]


def test_other_files_are_used_with_a_warning_and_their_own_hash(files: Path) -> None:
    said: list[str] = []
    data = SOURCES["svhn"].load(files, said.append)
    assert sum("warning" in line and "md5 differs" in line for line in said) == 2
    parts = split(data, "paper", 0)
    assert [len(parts.train), len(parts.valid), len(parts.test)] == [30, 20, 20]
    assert np.bincount(parts.valid.y).tolist() == [2] * 10
    numbers = parts.train.x[:, 0, 0, 0].tolist()
    assert numbers == sorted(set(range(50)) - set(parts.valid.x[:, 3, 2, 1].tolist()))
    for part in (parts.train, parts.valid, parts.test):
        np.testing.assert_array_equal(part.y, (part.x[:, 31, 31, 2].astype(int) % 10 + 1) % 10)
    assert SOURCES["svhn"].load(None, said.append).sha256 == data.sha256
    assert len(split(data, "whole", 0).train) == 50


def test_the_papers_split_takes_from_train_and_from_extra(files: Path) -> None:
    data = SOURCES["svhn-extra"].load(files, lambda _: None)
    parts = split(data, "paper", 0)
    assert [len(parts.train), len(parts.valid), len(parts.test)] == [30 + 30, 30, 20]
    held = parts.valid.x[:, 0, 0, 0]
    assert [(held < 50).sum(), (held >= 100).sum()] == [20, 10]
    assert np.bincount(parts.valid.y).tolist() == [3] * 10


def test_a_file_of_another_layout_is_refused(files: Path) -> None:
    savemat(files / "test_32x32.mat", {"X": np.zeros((28, 28, 3, 5), np.uint8), "y": np.ones((5, 1))})
    with pytest.raises(InputError, match=r"test_32x32.mat.*md5 differs.*32 x 32 x 3 x N"):
        SOURCES["svhn"].load(files, lambda _: None)
    (files / "test_32x32.mat").write_bytes(b"hello")
    with pytest.raises(InputError, match="no .mat file"):
        SOURCES["svhn"].load(files, lambda _: None)
    savemat(files / "test_32x32.mat", {"X": np.zeros((32, 32, 3, 5), np.uint8), "y": np.zeros((5, 1))})
    with pytest.raises(InputError, match="label from 1 to 10"):
        SOURCES["svhn"].load(files, lambda _: None)


def test_a_file_as_published_needs_no_warning(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = {
        f"{name}_32x32.mat": hashlib.md5((files / f"{name}_32x32.mat").read_bytes()).hexdigest()
        for name in ("train", "test")
    }
    published = svhn.SVHN.__class__(**{**svhn.SVHN.__dict__, "files": hashes})
    said: list[str] = []
    svhn.load_svhn(published, files, said.append)
    assert said == []


def test_too_few_images_of_a_class() -> None:
    with pytest.raises(WorkError, match="more than 600 images of the digit 0; it has 1"):
        arranged("svhn", lambda _: (np.zeros((10, 32, 32, 3), np.uint8), np.arange(10)))


def slow_local(x: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """One channel (H, W), by the formula: two passes over every pixel and its 7 x 7 neighbours."""
    height, width = x.shape
    centred, deviation = np.zeros_like(x), np.zeros_like(x)

    def around(values: np.ndarray, i: int, j: int) -> float:
        total = weights = 0.0
        for k in range(max(0, i - 3), min(height, i + 4)):
            for m in range(max(0, j - 3), min(width, j + 4)):
                weight = math.exp(-((k - i) ** 2 + (m - j) ** 2) / (2 * 2.0**2)) * seen[k, m]
                total += weight * values[k, m]
                weights += weight
        return total / weights

    means = np.array([[around(x, i, j) for j in range(width)] for i in range(height)])
    centred = x - means
    squares = centred**2
    deviation = np.array([[math.sqrt(around(squares, i, j)) for j in range(width)] for i in range(height)])
    return np.stack([centred, deviation])


@pytest.mark.parametrize("holes", [False, True])
def test_local_contrast_is_the_formulas(holes: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.random((2, 9, 8, 3))
    seen = rng.random((2, 9, 8, 3)) > 0.2 if holes else np.ones((2, 9, 8, 3), dtype=bool)
    found = contrast("local", torch.from_numpy(x.reshape(2, -1)), torch.from_numpy(seen.reshape(2, -1)), (9, 8, 3))
    normalised = found.normalise(torch.from_numpy(x.reshape(2, -1))).reshape(x.shape).numpy()
    for n in range(2):
        pixels = x[n][seen[n]]
        whole = (x[n] - pixels.mean()) / pixels.std()
        parts = [slow_local(whole[:, :, c], seen[n, :, :, c]) for c in range(3)]
        centred, deviation = np.stack([p[0] for p in parts], -1), np.stack([p[1] for p in parts], -1)
        want = centred / np.maximum(deviation, max(deviation[seen[n]].mean(), 1e-4))
        np.testing.assert_allclose(normalised[n][seen[n]], want[seen[n]], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(
        found.undo(found.normalise(torch.from_numpy(x.reshape(2, -1)))).numpy(), x.reshape(2, -1)
    )


def test_an_image_is_normalised_by_itself_alone() -> None:
    x = torch.rand(5, 192, generator=torch.Generator().manual_seed(0))
    seen = torch.ones(1, 1, dtype=torch.bool).expand(5, 192)
    for transform in ("global", "local"):
        together = contrast(transform, x, seen, (8, 8, 3)).normalise(x)
        alone = contrast(transform, x[3:4], seen[3:4], (8, 8, 3)).normalise(x[3:4])
        torch.testing.assert_close(together[3:4], alone)


def test_a_flat_image_stays_finite() -> None:
    x = torch.full((1, 192), 0.3)
    for transform in ("global", "local"):
        found = contrast(transform, x, torch.ones_like(x).bool(), (8, 8, 3))
        assert found.normalise(x).abs().max() < 1e-3

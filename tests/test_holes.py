"""Where holes are, and what is measured when known values are hidden."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mmdgm.data.batches import Batch
from mmdgm.data.dataset import Column, Schema
from mmdgm.data.missing import fitted_mask, load_mask, parse_pattern
from mmdgm.errors import InputError
from mmdgm.evaluation_holes import evaluate_with_holes
from mmdgm.holes import random_holes
from mmdgm.imputation import Imputer
from mmdgm.model import initialised
from mmdgm.runtime import generator
from tests.conftest import images, small, table

IMAGE = Schema(image_shape=(6, 5))
COLOUR = Schema(image_shape=(4, 4, 3))
TABLE = table().schema


def drawn(text: str, schema: Schema = IMAGE, rows: int = 1, seed: int = 0) -> np.ndarray:
    return parse_pattern(text).mask(rows, schema, seed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rect:2", [".....", ".....", ".##..", ".##..", ".....", "....."]),
        ("rect:3x1", [".....", "..#..", "..#..", "..#..", ".....", "....."]),
        ("rect:1x2@5,3", [".....", ".....", ".....", ".....", ".....", "...##"]),
        ("half:left", ["##...", "##...", "##...", "##...", "##...", "##..."]),
        ("half:right", ["..###", "..###", "..###", "..###", "..###", "..###"]),
        ("half:top", ["#####", "#####", "#####", ".....", ".....", "....."]),
        ("half:bottom", [".....", ".....", ".....", "#####", "#####", "#####"]),
    ],
)
def test_patterns_by_hand(text: str, expected: list[str]) -> None:
    shown = ["".join("#" if hole else "." for hole in line) for line in drawn(text).reshape(6, 5)]
    assert shown == expected


def test_dropping_has_the_share_and_a_seed() -> None:
    mask = drawn("drop:0.3", rows=2000)
    assert mask.mean() == pytest.approx(0.3, abs=0.01)
    np.testing.assert_array_equal(mask, drawn("drop:0.3", rows=2000))
    assert (mask != drawn("drop:0.3", rows=2000, seed=1)).any()
    assert drawn("drop:1").all()
    assert drawn("drop:.5", TABLE, 100).shape == (100, 3)


def test_the_channels_of_a_pixel_are_missing_together_in_a_rectangle() -> None:
    mask = drawn("rect:2", COLOUR).reshape(4, 4, 3)
    assert (mask == mask[:, :, :1]).all()
    assert mask.sum() == 12


@pytest.mark.parametrize(
    ("text", "schema", "message"),
    [
        ("rect:7", IMAGE, "does not lie within images of 6 x 5 pixels"),
        ("rect:0", IMAGE, "does not lie within"),
        ("rect:2x2@5,0", IMAGE, "does not lie within"),
        ("rect:2", TABLE, "is for images, but the data are a table"),
        ("half:left", TABLE, "is for images"),
    ],
)
def test_a_pattern_that_does_not_fit(text: str, schema: Schema, message: str) -> None:
    with pytest.raises(InputError, match=message):
        drawn(text, schema)


@pytest.mark.parametrize("text", ["rect", "rect:a", "drop:0", "drop:1.5", "drop:x", "half:middle", "12", "mask:"])
def test_a_pattern_that_is_none(text: str) -> None:
    with pytest.raises(InputError, match="--pattern"):
        parse_pattern(text)


def test_masks_from_files(tmp_path: Path) -> None:
    image = np.zeros((6, 5), dtype=bool)
    image[2, 3] = True
    np.save(tmp_path / "one.npy", image)
    np.savez(tmp_path / "all.npz", mask=np.stack([image, ~image]).astype(np.uint8))
    np.testing.assert_array_equal(drawn(f"mask:{tmp_path / 'one.npy'}", rows=3)[2], image.reshape(-1))
    np.testing.assert_array_equal(drawn(f"mask:{tmp_path / 'all.npz'}", rows=2)[1], ~image.reshape(-1))
    with pytest.raises(InputError, match=r"shape \(6, 5\) of one row or \(3, 6, 5\) of all; it has \(2, 6, 5\)"):
        drawn(f"mask:{tmp_path / 'all.npz'}", rows=3)


def test_a_mask_of_pixels_holds_for_every_channel() -> None:
    pixels = np.zeros((4, 4), dtype=bool)
    pixels[1, 2] = True
    fitted = fitted_mask(pixels, 2, COLOUR, "mask").reshape(2, 4, 4, 3)
    assert fitted[:, 1, 2].all()
    assert fitted.sum() == 6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: np.save(path, np.array([0.0, 2.0])), "must hold booleans"),
        (lambda path: path.write_text("nothing"), "cannot be read"),
        (lambda path: None, "does not exist"),
    ],
)
def test_bad_mask_files(make, message: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    make(tmp_path / "mask.npy")
    with pytest.raises(InputError, match=message):
        load_mask(tmp_path / "mask.npy")


def test_an_archive_without_a_mask(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", x=np.zeros(3))
    with pytest.raises(InputError, match="must hold an array 'mask'; it holds x"):
        load_mask(tmp_path / "m.npz")


def test_training_holes_are_many_kinds_and_never_an_upright_rectangle() -> None:
    key = generator("cpu", 0)
    masks = random_holes(4000, Schema(image_shape=(28, 28)), 0.75, key).view(-1, 28, 28)
    some = masks.flatten(1).any(1)
    assert some.float().mean() == pytest.approx(0.75, abs=0.03)
    shares = masks[some].flatten(1).float().mean(1)
    assert shares.min() < 0.05
    assert shares.max() > 0.85
    rows, columns = masks.any(2, keepdim=True), masks.any(1, keepdim=True)
    box = rows.logical_and(columns).flatten(1).sum(1)
    holes = masks.flatten(1).sum(1)
    inner = (holes > 20) & (holes < 500)
    assert ((box == holes) & inner).float().mean() < 0.01


def test_training_holes_of_a_table_hide_a_category_whole() -> None:
    masks = random_holes(500, TABLE, 1.0, generator("cpu", 0))
    assert masks.shape == (500, 5)
    assert bool((masks[:, 2:] == masks[:, 2:3]).all())
    assert 0.3 < masks[:, 0].float().mean() < 0.7


def test_channels_are_hidden_together_in_training() -> None:
    masks = random_holes(50, COLOUR, 1.0, generator("cpu", 0)).view(50, 16, 3)
    assert bool((masks == masks[:, :, :1]).all())


def test_figures_with_holes_by_hand() -> None:
    """Zeros and means for one hole: their squared errors need no model."""
    schema = Schema(columns=tuple(Column(f"x{i}", "real") for i in range(3)))
    model = initialised(small(C=1.0, likelihood="gaussian-fixed"), schema, 2, 0)
    x = torch.tensor([[1.0, 2.0, 3.0], [2.0, 0.0, 1.0]])
    mask = torch.tensor([[True, False, False], [True, True, False]])
    seen = torch.tensor([[True, True, True], [True, False, True]])  # nobody knows the value behind (1, 1)
    batch = Batch(x * seen, seen, torch.tensor([0, -1]))
    means = torch.tensor([1.5, 1.0, 0.0])
    found, filled = evaluate_with_holes(model, batch, mask, "drop:x", means, Imputer(steps=6, burn_in=2))
    assert filled is not None
    assert found.mse_by["zeros"] == pytest.approx((1 + 4) / 2)
    assert found.mse_by["means"] == pytest.approx((0.25 + 0.25) / 2)
    estimate = ((filled.x - x)[:, 0] ** 2).mean().item()
    assert found.mse == found.mse_by["estimate"] == pytest.approx(estimate)
    assert (found.examples, found.labelled) == (2, 1)
    assert found.missing_percent == pytest.approx(100 * 2 / 6)
    assert found.error_percent in (0.0, 100.0)
    assert set(found.error_by) == {"averaged", "last_step", "zeros", "means", "seen"}


def test_a_hole_that_hides_everything_and_one_that_hides_nothing() -> None:
    data = images(20)
    model = initialised(small(C=1.0), data.schema, 3, 0)
    x = torch.from_numpy(data.x.reshape(20, -1)).float() / 255
    batch = Batch(x, torch.ones_like(x, dtype=torch.bool), torch.from_numpy(data.y))
    for hidden in (True, False):
        mask = torch.full_like(batch.observed, hidden)
        found, filled = evaluate_with_holes(model, batch, mask, "all", x.mean(0), Imputer(steps=30, burn_in=2))
        assert filled is not None
        assert filled.x.isfinite().all()
        assert (found.mse is None) == (not hidden)
        assert (found.r_hat_median is None) == (not hidden)


def test_a_classifier_without_a_bound_is_measured_on_the_row_as_it_sees_it() -> None:
    data = images(60)
    model = initialised(small(C=1.0, bound=False, missing="mask"), data.schema, 3, 0)
    with torch.no_grad():
        model.classifier.linear.bias.copy_(torch.tensor([0.0, 1.0, 0.0]))  # everything is of class 1
    x = torch.from_numpy(data.x.reshape(60, -1)).float() / 255
    batch = Batch(x, torch.ones_like(x, dtype=torch.bool), torch.from_numpy(data.y))
    mask = torch.zeros_like(batch.observed)
    mask[:, :10] = True
    found, filled = evaluate_with_holes(model, batch, mask, "rows", x.mean(0), Imputer())
    assert filled is None
    assert found.mse is None
    assert set(found.mse_by) == {"zeros", "means"}
    assert found.error_percent == found.error_by["seen"] == pytest.approx(100 * (data.y != 1).mean())
    assert found.protocol["method"] == "none"

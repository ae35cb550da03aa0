"""Small parts: layers, recipes, distortions."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from mmdgm.augmentation import warp
from mmdgm.data.batches import resident
from mmdgm.errors import InputError
from mmdgm.networks import MLP, BatchNorm, Linear
from mmdgm.recipes import RECIPES, Recipe, changed, recipe_named
from mmdgm.runtime import generator
from mmdgm.training import build_model
from tests.conftest import images, small

CPU = torch.device("cpu")


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=generator("cpu", "test"))


@pytest.fixture(autouse=True)
def _fork() -> object:
    with torch.random.fork_rng():
        yield


def test_a_linear_layer_is_torchs() -> None:
    ours, theirs = Linear(5, 3), nn.Linear(5, 3)
    theirs.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours(noise(4, 5)), theirs(noise(4, 5)))


def test_batch_norm_is_torchs_and_can_forget() -> None:
    ours, theirs = BatchNorm(3, momentum=0.1), nn.BatchNorm1d(3, momentum=0.1)
    h = 3 * noise(50, 3) + 1
    torch.testing.assert_close(ours(h), theirs(h))
    torch.testing.assert_close(ours.mean, theirs.running_mean)
    torch.testing.assert_close(ours.variance, theirs.running_var)
    before = ours.mean.clone()
    torch.testing.assert_close(ours(h - 5, remember=False), theirs(h - 5))
    assert torch.equal(ours.mean, before)


def test_an_mlp_returns_all_its_layers() -> None:
    network = MLP(4, (6, 5), "relu")
    x = noise(3, 4)
    first, second = network(x)
    torch.testing.assert_close(first, torch.relu(network.layers[0](x)))
    torch.testing.assert_close(second, torch.relu(network.layers[1](first)))
    assert MLP(4, (), "relu")(x)[0] is x
    none = [torch.zeros(3, 6), None]
    assert network(x, none)[0].abs().sum() == 0


def test_a_recipe_changes_by_words() -> None:
    recipe = changed(Recipe(), ["C=3", "hidden=7", "generative_hidden=none", "normalise=true", "margin=1e-1"])
    assert (recipe.C, recipe.hidden, recipe.generative_hidden, recipe.normalise) == (3.0, (7,), None, True)
    assert recipe.margin == 0.1
    assert changed(recipe, ["generative_hidden=5,6"]).generative_hidden == (5, 6)
    for name in RECIPES:
        assert Recipe.from_json(recipe_named(name).to_json()) == recipe_named(name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden": (3, 0)}, "layer sizes"),
        ({"hidden": [3]}, "whole numbers with commas"),
        ({"C": "3"}, "C must be a number"),
        ({"normalise": 1}, "true or false"),
        ({"C": float("inf")}, "C must be a number"),
        ({"dropout": 1.0}, "below 1"),
        ({"pretraining_epochs": 3}, "below epochs"),
        ({"schedule": "pegasos"}, "needs optimiser=sgd"),
        ({"select": "best", "split": "whole"}, "has none"),
        ({"bound": False, "features": "latents"}, "needs bound=true"),
    ],
)
def test_a_recipe_refuses_what_makes_no_sense(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        small(**changes)


def test_a_distortion_of_strength_0_is_none_and_of_1_keeps_the_ink() -> None:
    rows = resident(images(), CPU)
    same = warp(rows, (6, 5), 0.0, generator("cpu", 0)).x
    torch.testing.assert_close(same, rows.x / 255, atol=1e-5, rtol=0)
    big = torch.zeros(200, 28, 28)
    big[:, 10:18, 10:18] = 1
    from mmdgm.data.batches import Batch

    batch = Batch(big.reshape(200, -1), torch.ones(1, 1, dtype=torch.bool).expand(200, 784), torch.zeros(200))
    moved = warp(batch, (28, 28), 1.0, generator("cpu", 0)).x
    assert torch.equal(moved, warp(batch, (28, 28), 1.0, generator("cpu", 0)).x)
    assert (moved - batch.x).abs().mean() > 0.01
    assert moved.sum(1).mean().item() == pytest.approx(64, rel=0.1)


def test_a_distortion_needs_whole_images() -> None:
    data = images()
    x = data.x.astype(np.float32) / 255
    x[3, 2, 1] = np.nan
    with pytest.raises(InputError, match="without holes"):
        build_model(small(warp=1.0), replace(data, x=x), 0)


def test_a_constant_text_column_is_no_error(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from mmdgm.data.sources import load

    (tmp_path / "t.csv").write_text("a,b,label\nx,1,u\nx,2,v\n")
    assert load(str(tmp_path / "t.csv")).schema.columns[0].levels == ("x",)
    assert np.isfinite(replace(load(str(tmp_path / "t.csv"))).x).all()

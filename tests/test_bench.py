"""What the benchmark counts, and that the plain loop it compares with is the same model."""

from dataclasses import replace

import pytest
import torch

from mmdgm.bench import bench_training
from mmdgm.data.splits import split
from mmdgm.errors import InputError
from mmdgm.operations import count_layers
from mmdgm.plain_loop import PlainLoop
from mmdgm.recipes import recipe_named
from mmdgm.training import build_model
from tests.conftest import images, small


def test_operations_of_a_fully_connected_network_by_hand() -> None:
    """30-16-12-z4 twice (mean, variance), 4-12-16-30, a classifier of 28: six a weight, but for the first layer."""
    model = build_model(small(), split(images(), "whole", 0).train, 0)
    counted = count_layers(model)
    first, rest = 30 * 16, 16 * 12 + 12 * 8 + 28 * 3 + 4 * 12 + 12 * 16 + 16 * 30
    assert sum(layer.operations for layer in counted) == 4 * first + 6 * rest
    assert sum(layer.nominal for layer in counted) == 4 * first + 6 * rest
    assert [layer.first for layer in counted] == [True] + [False] * (len(counted) - 1)


def test_operations_of_a_convolution_by_hand() -> None:
    """A 3 x 3 layer at 6 x 8, pooled; up again by one: its zeros are nominal work only."""
    recipe = small(convolutions=("3x2:pool",), generative_convolutions=("3xout:up",), hidden=(), likelihood="bernoulli")
    counted = count_layers(build_model(recipe, split(images(shape=(6, 8)), "whole", 0).train, 0))
    by_name = {layer.name: layer for layer in counted}
    assert by_name["recognition.network.maps.0"].nominal == 4 * 9 * 2 * 48
    assert by_name["generative.output.maps.0"].nominal == 6 * 9 * 2 * 48
    assert by_name["generative.output.maps.0"].operations == 6 * 9 * 2 * 12


@pytest.mark.parametrize("name", ["mmva-mnist-paper", "cmmva-mnist", "cmmva-svhn"])
def test_the_plain_loop_has_as_many_weights_as_our_model(name: str) -> None:
    recipe = recipe_named(name)
    shape = (32, 32, 3) if name == "cmmva-svhn" else (28, 28)
    rows = split(images(40, shape=shape, classes=3), "whole", 0).train
    ours = build_model(recipe, rows, 0)
    with torch.random.fork_rng(devices=[]):
        plain = PlainLoop(replace(recipe, batch_size=20), rows, ((*shape, 1)[2], *shape[:2]), torch.device("cpu"))
        assert plain.step() == 20

    def matrices(module: torch.nn.Module) -> int:
        return sum(p.numel() for p in module.parameters() if p.ndim > 1)

    assert matrices(ours) == matrices(plain)


@pytest.mark.parametrize(
    ("name", "message"),
    [("va-mnist", "a bound and a hinge loss"), ("cnn-mnist", "a bound"), ("mmva-table", "for images")],
)
def test_a_recipe_that_cannot_be_compared_is_refused(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        bench_training(name, 10, 1.0, "cpu", lambda _: None)

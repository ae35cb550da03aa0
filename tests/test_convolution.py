"""Convolutional stacks against torch's own layers and the operations that the paper names, and their shapes."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from mmdgm.convolution import (
    ConvolutionStack,
    UnpoolingStack,
    convolve,
    pool,
    shapes_along,
    to_images,
    to_rows,
    unpool_and_convolve,
)
from mmdgm.data.dataset import Schema
from mmdgm.errors import InputError
from mmdgm.model import initialised
from mmdgm.recipes import recipe_named
from mmdgm.recipes.layers import Convolution, is_layer, layers, mirror, parse_layer
from mmdgm.runtime import generator
from tests.conftest import small


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=generator("cpu", *shape), dtype=torch.float64)


@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("inputs", [1, 2, 20])
def test_convolution_is_torchs(kernel: int, inputs: int) -> None:
    x, weight = draw(3, inputs, 9, 10), draw(4, inputs, kernel, kernel)
    for padding in (0, kernel // 2, kernel - 1):
        torch.testing.assert_close(convolve(x, weight, padding), F.conv2d(x, weight, padding=padding))


@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("outputs", [1, 4, 7])
def test_unpooling_puts_the_value_top_left_and_zeros_elsewhere(kernel: int, outputs: int) -> None:
    x, weight = draw(3, 2, 4, 5), draw(2, outputs, kernel, kernel)
    unpooled = torch.zeros(3, 2, 8, 10, dtype=torch.float64)
    unpooled[:, :, ::2, ::2] = x
    flipped = weight.flip(2, 3).transpose(0, 1)
    for padding in {0, kernel // 2, kernel - 1}:
        made = unpool_and_convolve(x, weight, crop=kernel - 1 - padding)
        torch.testing.assert_close(made, F.conv2d(unpooled, flipped, padding=padding))


def test_pooling_is_torchs() -> None:
    x = draw(2, 3, 6, 8)
    assert torch.equal(pool(x), F.max_pool2d(x, 2))


def test_pooling_by_hand_gives_the_first_of_equal_values_the_gradient() -> None:
    x = torch.tensor([[[[1.0, 3.0], [3.0, 2.0]]]], requires_grad=True)
    pool(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[[[0.0, 1.0], [0.0, 0.0]]]]


def test_gradients_written_by_hand_are_the_differences() -> None:
    x, weight = draw(2, 2, 4, 4).requires_grad_(), draw(2, 1, 5, 5).requires_grad_()
    assert torch.autograd.gradcheck(pool, (x,))
    assert torch.autograd.gradcheck(lambda h, w: unpool_and_convolve(h, w, 2), (x, weight))
    assert torch.autograd.gradcheck(lambda h, w: convolve(h, w.transpose(0, 1), 1), (x, weight))


def test_rows_and_images_are_the_same_memory() -> None:
    rows = torch.arange(2 * 3 * 4 * 5.0).reshape(2, -1)
    images = to_images(rows, (5, 3, 4))
    assert images.data_ptr() == rows.data_ptr()
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert images[1, 2, 1, 3] == rows[1, 1 * 4 * 5 + 3 * 5 + 2]
    assert torch.equal(to_rows(images), rows)


def test_the_papers_shapes() -> None:
    """FACTS of the authors' networks: 28 - 24/12 - 12 - 10/5 - 5 - 5 and 1600 values; SVHN ends at 4 x 4 x 96."""
    mnist = recipe_named("cmmva-mnist")
    along = shapes_along((1, 28, 28), layers(mnist.convolutions), "convolutions")
    assert along == [(1, 28, 28), (32, 12, 12), (32, 12, 12), (64, 5, 5), (64, 5, 5), (64, 5, 5)]
    assert mnist.generative_convolutions is not None
    upwards = layers(mnist.generative_convolutions[:-1])
    assert shapes_along((64, 5, 5), upwards, "g") == [(64, 5, 5), (64, 5, 5), (64, 12, 12), (32, 12, 12), (32, 12, 12)]
    svhn = shapes_along((3, 32, 32), layers(recipe_named("cmmva-svhn").convolutions), "convolutions")
    assert svhn[-1] == (96, 4, 4)


def test_mirroring_undoes_every_shape() -> None:
    down = layers(recipe_named("cmmva-mnist").convolutions)
    assert [str(layer) for layer in mirror(down)] == ["3x64", "3x64", "3x32:full:up", "3x32", "5xout:full:up"]


def test_layers_by_their_words() -> None:
    assert parse_layer("5x32:valid:pool:drop") == Convolution(5, 32, "valid", pool=True, drop=True)
    assert parse_layer("3xout:up") == Convolution(3, None, "same", up=True)
    for wrong in ("", "5", "4x32", "5x0", "5x32:vald", "5x32:valid:full", "5x32:pool:pool", "5x32 pool"):
        assert not is_layer(wrong), wrong


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.sampled_from(["softplus", "relu"]), st.booleans())
def test_any_even_image_size_goes_down_and_up_again(
    h: int, w: int, channels: int, activation: str, normalise: bool
) -> None:
    shape = (channels, 4 * h, 4 * w)
    down = layers(("3x4:pool", "5x6:drop", "1x3:pool"))
    with torch.random.fork_rng(devices=[]):  # weights come from torch's global generator
        stack = ConvolutionStack(shape, down, (7,), activation, normalise, (0.5, 0.25))
        up = UnpoolingStack(7, 3, shape, mirror(down), 2, activation, normalise)
    x = draw(2, channels * 16 * h * w).float()
    hidden = stack(x)
    assert [part.shape[1] for part in hidden] == list(stack.sizes) == [3 * h * w, 7]
    assert stack.drops == ((4 * 4 * h * w, 0.0), (6 * 4 * h * w, 0.5), (3 * h * w, 0.0), (7, 0.25))
    assert up(hidden[-1]).shape == (2, 2 * x.shape[1])


def test_dropped_maps_are_gone() -> None:
    with torch.random.fork_rng(devices=[]):
        stack = ConvolutionStack((1, 4, 4), layers(("3x2:drop",)), (), "relu", False, (0.5, 0.0))
    mask = torch.zeros(3, 32)
    mask[1] = 2.0
    kept, dropped = stack(draw(3, 16).float())[-1], stack(draw(3, 16).float(), (mask,))[-1]
    assert dropped[0].abs().sum() == 0
    torch.testing.assert_close(dropped[1], 2 * kept[1])


@pytest.mark.parametrize(
    ("changes", "shape", "message"),
    [
        ({"convolutions": ("3x4:pool",)}, (5, 6), r"layer 1 \(3x4:pool\) pools 5 x 6, which cannot be halved"),
        ({"convolutions": ("3x4", "5x4:valid")}, (4, 4), r"layer 2 \(5x4:valid\) has a kernel of 5.*only 4 x 4"),
        ({"generative_convolutions": ("3x4:up", "3xout:up")}, (6, 6), "cannot end at 6 x 6 pixels.*4, 8, 12"),
        ({"convolutions": ("3xout",)}, (6, 6), "only the last generative layer may say 'out'"),
        ({"convolutions": ("3x4",)}, None, "convolutions is for images, but the data are a table"),
        ({"transform": "global", "likelihood": "gaussian"}, None, "transform=global is for images"),
    ],
)
def test_a_mismatch_is_explained(changes: dict[str, object], shape: tuple[int, ...] | None, message: str) -> None:
    from tests.conftest import table

    schema = table().schema if shape is None else Schema(image_shape=shape)
    recipe = small(**{"likelihood": "bernoulli" if shape else "columns", **changes})
    with pytest.raises(InputError, match=message):
        initialised(recipe, schema, 2, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"convolutions": ("4x3",)}, "convolutions must be layers such as"),
        ({"generative_convolutions": ("3x3",)}, "must end with a layer to the pixels.*'3x3'"),
        ({"transform": "local"}, "pixels that are not in.*likelihood=bernoulli-binarised"),
    ],
)
def test_a_recipe_refuses_layers_that_make_no_sense(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        small(**changes)


def test_colour_images_with_predicted_variances() -> None:
    recipe = replace(
        recipe_named("cmmva-svhn-paper"), convolutions=("3x4:pool", "3x5:drop"), latent_size=3, generative_hidden=(6,)
    )
    model = initialised(recipe, Schema(image_shape=(4, 6, 3)), 2, 0)
    assert model.generative is not None
    p = model.generative(torch.zeros(2, 5, 3))
    assert p.mean.shape == (2, 5, 72)
    assert torch.equal(p.stddev.detach().log().isfinite(), torch.ones(2, 5, 72, dtype=torch.bool))

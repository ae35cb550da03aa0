"""Recipes for MNIST without convolution."""

import dataclasses

from mmdgm.recipes.recipe import Recipe


def va_mnist() -> Recipe:
    """The paper's VA: the bound alone, trained for long."""
    return Recipe(
        name="va-mnist",
        summary="VA: the variational auto-encoder of the paper, 500-500-50, no labels",
        C=0.0,
        epochs=1000,
        learning_rate=4e-3,
        weight_decay=0.03,
        ema=0.9995,
    )


def mmva_mnist() -> Recipe:
    """What `make train` trains."""
    return Recipe(
        name="mmva-mnist",
        summary="MMVA for a laptop: good at both within three minutes on two cores",
        activation="relu",
        normalise=True,
        likelihood="bernoulli",
        adversary=1.5,
        epochs=60,
        learning_rate=4e-3,
        constant_share=0.3,
        weight_decay=0.1,
        ema=0.998,
    )


def mmva_mnist_paper() -> Recipe:
    """The paper's networks, C and margin; trained with an adversary, weight decay and averaged weights."""
    return Recipe(
        name="mmva-mnist-paper",
        summary="MMVA of the paper: 500-500-50 and C = 15, with our training",
        likelihood="bernoulli",
        adversary=1.0,
        epochs=400,
        learning_rate=4e-3,
        weight_decay=0.07,
        dropout=0.1,
        ema=0.9995,
    )


def mmva_mnist_best() -> Recipe:
    """The lowest error that we reached without convolution and without augmentation."""
    return Recipe(
        name="mmva-mnist-best",
        summary="MMVA with three normalised layers of 1000, for the lowest error without convolution",
        split="whole",
        hidden=(1000, 1000, 1000),
        generative_hidden=(500, 500),
        activation="relu",
        normalise=True,
        likelihood="bernoulli",
        C=20.0,
        adversary=1.5,
        epochs=100,
        batch_size=250,
        learning_rate=3e-3,
        constant_share=0.3,
        weight_decay=0.3,
        ema=0.999,
    )


def mmva_mnist_augmented() -> Recipe:
    """The lowest error that we reached without convolution, with distorted training images."""
    return dataclasses.replace(
        mmva_mnist_best(),
        name="mmva-mnist-augmented",
        summary="MMVA trained on distorted images, for the lowest error without convolution",
        hidden=(1000, 1000),
        batch_size=500,
        epochs=60,
        learning_rate=4e-3,
        weight_decay=0.03,
        adversary=0.0,
        warp=0.7,
    )

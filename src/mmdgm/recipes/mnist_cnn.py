"""Recipes for MNIST with convolution: CVA, CMMVA and the purely discriminative CNN.

All of them have the paper's networks. Those with `paper` in their name are also trained as the paper's were, for
600 epochs with dropout on the way to z. The others are normalised, and drop units on the classifier's way alone.
"""

import dataclasses

from mmdgm.recipes.recipe import Recipe

_RECOGNITION = ("5x32:valid:pool:drop", "3x32", "3x64:valid:pool:drop", "3x64", "3x64")
_GENERATIVE = ("3x64", "3x64:full:up", "3x32", "3x32", "5xout:full:up")


def cmmva_mnist() -> Recipe:
    """The paper's networks, C and margin."""
    return Recipe(
        name="cmmva-mnist",
        summary="CMMVA of the paper: its networks, C = 1000, margin 1; with our training",
        split="whole",
        convolutions=_RECOGNITION,
        hidden=(500,),
        generative_convolutions=_GENERATIVE,
        activation="relu",
        normalise=True,
        likelihood="bernoulli",
        features="last",
        C=1000.0,
        margin=1.0,
        epochs=50,
        batch_size=125,
        learning_rate=8e-3,
        constant_share=0.2,
        weight_decay=0.05,
        feature_dropout=0.5,
        ema=0.999,
    )


def cva_mnist() -> Recipe:
    """The same networks, the bound alone."""
    return dataclasses.replace(
        cmmva_mnist(),
        name="cva-mnist",
        summary="CVA: the paper's convolutional variational auto-encoder, no labels",
        C=0.0,
        feature_dropout=0.0,
        weight_decay=0.02,
        epochs=60,
    )


def cnn_mnist() -> Recipe:
    """The recognition network and the classifier alone."""
    return dataclasses.replace(
        cmmva_mnist(),
        name="cnn-mnist",
        summary="the purely discriminative CNN of the same size, with the hinge loss alone",
        bound=False,
        C=1.0,
        weight_variance=1000.0,
        convolution_dropout=0.2,
        weight_decay=0.02,
        epochs=18,
    )


def cmmva_mnist_fast() -> Recipe:
    """Past the paper's error and bound in five minutes on two cores."""
    return dataclasses.replace(
        cmmva_mnist(),
        name="cmmva-mnist-fast",
        summary="CMMVA in five minutes on two cores: the paper's networks, past its error and bound",
        C=100.0,
        margin=3.0,
        epochs=15,
        weight_decay=0.02,
    )


def cmmva_mnist_best() -> Recipe:
    """The lowest error that we reached without augmentation."""
    return dataclasses.replace(
        cmmva_mnist(),
        name="cmmva-mnist-best",
        summary="CMMVA with wider networks and a learned prior, for the lowest error at a good bound",
        convolutions=("5x64:valid:pool:drop", "3x64", "3x128:valid:pool:drop", "3x128", "3x128"),
        generative_convolutions=("3x128", "3x128:full:up", "3x64", "3x64", "5xout:full:up"),
        prior_layers=6,
        rate="sampled",
        C=100.0,
        margin=3.0,
        epochs=60,
        weight_decay=0.02,
        convolution_dropout=0.1,
    )


def cmmva_mnist_holes() -> Recipe:
    """For images with holes: q(z | x) is trained to say what hides in them; no rectangle is among them."""
    return dataclasses.replace(
        cmmva_mnist(),
        name="cmmva-mnist-holes",
        summary="CMMVA trained on images with random holes of many kinds, for classifying and filling in",
        missing="mask",
        holes=0.9,
        C=100.0,
        margin=3.0,
        epochs=30,
        weight_decay=0.02,
    )


def cnn_mnist_holes() -> Recipe:
    """What a fair reader would ask for beside `cmmva-mnist-holes`: the same holes, seen by a classifier alone."""
    return dataclasses.replace(
        cnn_mnist(),
        name="cnn-mnist-holes",
        summary="the CNN that sees where holes are, trained on images with random holes of many kinds",
        missing="mask",
        holes=0.9,
        margin=3.0,
        epochs=30,
    )


def cmmva_mnist_paper() -> Recipe:
    """The settings of the paper and of its authors' code; about three hours on two cores."""
    return dataclasses.replace(
        cmmva_mnist(),
        name="cmmva-mnist-paper",
        summary="CMMVA trained as the paper's was: 600 epochs of Adam, dropout, nothing normalised",
        normalise=False,
        convolution_dropout=0.5,
        dropout=0.5,
        feature_dropout=0.0,
        epochs=600,
        batch_size=500,
        learning_rate=3e-4,
        schedule="thirds",
        constant_share=500 / 600,
        warmup_share=0.0,
        weight_decay=0.0,
        ema=0.0,
    )


def cva_mnist_paper() -> Recipe:
    """As `cmmva_mnist_paper`, without labels and without dropout in the fully connected layer."""
    return dataclasses.replace(
        cmmva_mnist_paper(),
        name="cva-mnist-paper",
        summary="CVA trained as the paper's was: 600 epochs of Adam, dropout, nothing normalised",
        C=0.0,
        dropout=0.0,
    )

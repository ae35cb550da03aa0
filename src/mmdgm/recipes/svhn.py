"""Recipes for SVHN: the paper's widths. The classifier reads the last map, and so does z.

`paper` in the name: with the paper's preprocessing and training. The others are normalised by batches, and see
images whose contrast is normalised one by one. All are for the 73,257 official training images; to add the 531,131
extra ones, train with `--data svhn-extra`.
"""

import dataclasses

from mmdgm.recipes.recipe import Recipe

_RECOGNITION = ("5x64:pool", "3x64:drop", "3x64:pool:drop", "3x96:drop", "3x96:pool")


def cmmva_svhn() -> Recipe:
    """The paper's widths, normalised."""
    return Recipe(
        name="cmmva-svhn",
        summary="CMMVA of the paper's widths for SVHN, with our training",
        data="svhn",
        split="whole",
        transform="global",
        convolutions=_RECOGNITION,
        hidden=(),
        activation="relu",
        normalise=True,
        latent_size=256,
        likelihood="gaussian-shared",
        features="last",
        C=10_000.0,
        margin=10.0,
        epochs=20,
        batch_size=125,
        learning_rate=4e-3,
        constant_share=0.2,
        weight_decay=0.05,
        convolution_dropout=0.2,
        ema=0.998,
    )


def cva_svhn() -> Recipe:
    """The same networks, the bound alone."""
    return dataclasses.replace(
        cmmva_svhn(),
        name="cva-svhn",
        summary="CVA of the paper's widths for SVHN, no labels",
        C=0.0,
        convolution_dropout=0.0,
    )


def cnn_svhn() -> Recipe:
    """The recognition network and the classifier alone; others can start from it (--init-from)."""
    return dataclasses.replace(
        cmmva_svhn(),
        name="cnn-svhn",
        summary="the purely discriminative CNN for SVHN; others may start from it with --init-from",
        bound=False,
        C=1.0,
        weight_variance=1000.0,
        epochs=10,
    )


def cmmva_svhn_best() -> Recipe:
    """Wider, and trained for longer."""
    return dataclasses.replace(
        cmmva_svhn(),
        name="cmmva-svhn-best",
        summary="CMMVA for SVHN with wider recognition layers, for the lowest error",
        convolutions=("3x96", "3x96:pool:drop", "3x192", "3x192:pool:drop", "3x256", "3x256:pool:drop"),
        generative_convolutions=("3x96:up", "3x64:up", "3x64", "5xout:up"),
        convolution_dropout=0.5,
    )


def cmmva_svhn_paper() -> Recipe:
    """The settings of the paper and of its authors' code; start it from a CNN as theirs was (--init-from)."""
    return dataclasses.replace(
        cmmva_svhn(),
        name="cmmva-svhn-paper",
        summary="CMMVA for SVHN trained as the paper's was: 80 epochs, local contrast, predicted variances",
        transform="local",
        normalise=False,
        likelihood="gaussian-predicted",
        C=10_000.0,
        margin=10.0,
        epochs=80,
        batch_size=500,
        learning_rate=1e-3,
        schedule="thirds",
        constant_share=30 / 80,
        warmup_share=0.0,
        weight_decay=0.0,
        convolution_dropout=0.3,
        ema=0.0,
    )


def cva_svhn_paper() -> Recipe:
    """As `cmmva_svhn_paper`, without labels."""
    return dataclasses.replace(
        cmmva_svhn_paper(),
        name="cva-svhn-paper",
        summary="CVA for SVHN trained as the paper's was: 80 epochs, local contrast, predicted variances",
        C=0.0,
    )

"""Recipes for tables, for binary latents, and for no latents at all."""

from mmdgm.recipes.recipe import Recipe


def mmva_table() -> Recipe:
    """For a table of one's own, with holes and columns of any kind."""
    return Recipe(
        name="mmva-table",
        summary="MMVA for a table: real, binary and categorical columns, with holes",
        data="digits",
        hidden=(128, 128),
        activation="relu",
        normalise=True,
        likelihood="columns",
        latent_size=16,
        C=30.0,
        epochs=200,
        batch_size=128,
        learning_rate=3e-3,
        dropout=0.1,
        weight_decay=0.05,
        ema=0.99,
    )


def mmsbn_mnist() -> Recipe:
    """A sigmoid belief network in the place of the VA: binary z, learned through the score function."""
    return Recipe(
        name="mmsbn-mnist",
        summary="max-margin sigmoid belief network: 200 binary z, score-function gradient",
        latents="bernoulli",
        latent_size=200,
        estimator="score",
        samples=4,
        epochs=100,
        learning_rate=1e-3,
        ema=0.999,
    )


def svm_digits() -> Recipe:
    """Without latent variables the learner is Pegasos: a linear multi-class SVM on the inputs."""
    return Recipe(
        name="svm-digits",
        summary="a linear multi-class SVM, trained with Pegasos' step: the objective without z",
        data="digits",
        likelihood="bernoulli",
        hidden=(),
        bound=False,
        C=1.0,
        margin=1.0,
        optimiser="sgd",
        schedule="pegasos",
        learning_rate=1.0,
        epochs=200,
        batch_size=32,
        ema=0.999,
    )


def pegasos() -> Recipe:
    """Pegasos' own step, 1 / (mu t) with mu = 10^-4 for 50,000 rows, and averaged weights; for features of a run."""
    return Recipe(
        name="pegasos",
        summary="a linear multi-class SVM by Pegasos, for what `mmdgm embed` writes: VA+Pegasos, CVA+Pegasos",
        data="digits",
        likelihood="bernoulli",
        hidden=(),
        bound=False,
        C=1.0,
        margin=1.0,
        weight_variance=0.2,
        optimiser="sgd",
        schedule="pegasos",
        learning_rate=1e6,
        epochs=40,
        batch_size=100,
        ema=0.9998,
    )


def class_condition_va() -> Recipe:
    """The second of two models, one on the other (Kingma et al. 2014): it sees the latents of a VA, and the class."""
    return Recipe(
        name="class-condition-va",
        summary="a class-conditional VA for what `mmdgm embed --what latents` writes: VA+Class-conditionVA",
        data="digits",
        conditional=True,
        C=0.0,
        hidden=(500,),
        likelihood="gaussian",
        epochs=100,
        batch_size=200,
        learning_rate=1e-3,
        weight_decay=0.02,
        ema=0.999,
    )


def class_condition_va_mnist() -> Recipe:
    """The class-conditional VA alone, on pixels: it draws digits of a wished class."""
    return Recipe(
        name="class-condition-va-mnist",
        summary="a class-conditional VA on the pixels, which draws digits of a wished class",
        conditional=True,
        C=0.0,
        epochs=100,
        learning_rate=4e-3,
        weight_decay=0.03,
        ema=0.999,
    )

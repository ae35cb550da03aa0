"""Recipes: every model of the paper, and ours, as a frozen value over one objective. Nothing here needs torch."""

from collections.abc import Callable

from mmdgm.errors import unknown
from mmdgm.recipes import mnist_cnn, mnist_mlp, other, svhn
from mmdgm.recipes.recipe import Recipe, changed, describe

__all__ = ["RECIPES", "Recipe", "changed", "describe", "recipe_named"]

RECIPES: dict[str, Callable[[], Recipe]] = {
    recipe().name: recipe
    for recipe in (
        mnist_mlp.va_mnist,
        mnist_mlp.mmva_mnist,
        mnist_mlp.mmva_mnist_paper,
        mnist_mlp.mmva_mnist_best,
        mnist_mlp.mmva_mnist_augmented,
        mnist_cnn.cva_mnist,
        mnist_cnn.cmmva_mnist,
        mnist_cnn.cnn_mnist,
        mnist_cnn.cmmva_mnist_fast,
        mnist_cnn.cmmva_mnist_best,
        mnist_cnn.cmmva_mnist_holes,
        mnist_cnn.cnn_mnist_holes,
        mnist_cnn.cva_mnist_paper,
        mnist_cnn.cmmva_mnist_paper,
        svhn.cva_svhn,
        svhn.cmmva_svhn,
        svhn.cnn_svhn,
        svhn.cmmva_svhn_best,
        svhn.cva_svhn_paper,
        svhn.cmmva_svhn_paper,
        other.mmva_table,
        other.mmsbn_mnist,
        other.svm_digits,
        other.pegasos,
        other.class_condition_va,
        other.class_condition_va_mnist,
    )
}


def recipe_named(name: str) -> Recipe:
    """The recipe of that name."""
    if name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    return RECIPES[name]()

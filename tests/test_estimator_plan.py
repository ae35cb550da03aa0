"""What the estimators decide by the rows, and in which order they learn."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from mmdgm import MaxMarginDGMClassifier, factors, model
from mmdgm.data.dataset import Column, Dataset, Schema
from mmdgm.estimator import learning
from mmdgm.estimator.plan import Settings, recipe_for
from mmdgm.recipes import Recipe


def planned(n: int, repeated: float = 1.0, image: bool = False, **changes: Any) -> Recipe:
    """For n rows of six columns, or of images of six pixels, each counted so many times."""
    chosen = Settings(
        C=30.0,
        margin=3.0,
        adversary=0.0,
        latent_size=None,
        hidden=(8,),
        epochs=None,
        batch_size=None,
        learning_rate=None,
        dropout=0.1,
        weight_decay=1.0,
        holes=None,
    )
    x = np.random.default_rng(0).random((n, 6))
    schema = Schema((2, 3)) if image else Schema(columns=tuple(Column(f"x{i}", "real") for i in range(6)))
    rows = Dataset("rows", x, np.arange(n) % 2, ("a", "b"), schema, weights=np.full(n, repeated))
    return recipe_for(replace(chosen, **changes), rows)


@pytest.mark.parametrize(("n", "steps"), [(20, 100), (60, 120), (400, 800), (3000, 2000)])
def test_two_steps_a_row_within_bounds(n: int, steps: int) -> None:
    recipe = planned(n)
    assert recipe.epochs * (n // recipe.batch_size) == pytest.approx(steps, rel=0.02)
    assert planned(n, epochs=7).epochs == 7


def test_a_repeated_row_counts_as_rows() -> None:
    assert planned(300, repeated=4.0) == planned(1200)


def test_few_rows_of_a_table_learn_at_a_smaller_rate() -> None:
    assert planned(999).learning_rate == 1e-3
    assert planned(1000).learning_rate == planned(100, image=True).learning_rate == 3e-3
    assert planned(100, learning_rate=0.5).learning_rate == 0.5


def test_tables_go_on_from_factors_and_images_do_not() -> None:
    table, images = planned(50), planned(50, image=True)
    assert (table.missing, table.likelihood, table.latent_size) == ("factors", "columns", 3)
    assert (images.missing, images.likelihood, images.latent_size) == ("mask", "bernoulli", 32)
    assert planned(50, latent_size=5).latent_size == 5


def test_the_adversary_reaches_as_far_as_a_share_of_the_spread_of_the_rows() -> None:
    x = np.random.default_rng(0).random((50, 6))
    assert planned(50, adversary=0.1).adversary == pytest.approx(0.1 * np.sqrt(x.var(axis=0).sum()))
    assert planned(50, adversary=0.1, C=0.0).adversary == 0


def blobs(n: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n)
    return 4 * rng.normal(size=(3, 4))[y] + rng.normal(size=(n, 4)), y


def test_the_temperature_is_of_rows_that_its_model_has_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, float]] = []
    train = learning._trained

    def trained(rows: Dataset, *rest: Any) -> Any:
        assert rows.weights is not None
        told.append(("trained", rows.weights.sum()))
        return train(rows, *rest)

    def temperature(_scores: Any, y: Any, weights: Any) -> float:
        assert len(y) == len(weights)
        told.append(("judged", weights.sum()))
        return 2.5

    monkeypatch.setattr(learning, "_trained", trained)
    monkeypatch.setattr(learning, "temperature", temperature)
    X, y = blobs(80)
    new = MaxMarginDGMClassifier(epochs=2, random_state=0, validation_fraction=0.25)
    assert new.fit(X, y, sample_weight=np.full(80, 2.0)).temperature_ == 2.5
    assert [what for what, _ in told] == ["trained", "judged", "trained"]
    (_, some), (_, held), (_, whole) = told
    assert some + held == whole == 160
    assert held == pytest.approx(40, abs=4)
    told.clear()
    monkeypatch.setattr(learning, "MANY_ROWS", 80)
    new.fit(X, y)
    assert [what for what, _ in told] == ["trained", "judged"]
    assert told[0][1] + told[1][1] == 80


def test_factors_are_looked_for_once_and_among_so_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    from mmdgm import training

    counted: list[int] = []
    fit = factors.fit_factors

    def counting(found: factors.Factors, x: Tensor, *rest: Tensor) -> None:
        counted.append(len(x))
        fit(found, x, *rest)

    monkeypatch.setattr(model, "fit_factors", counting)
    monkeypatch.setattr(training, "_FACTOR_ROWS", 50)
    X, y = blobs(80)
    new = MaxMarginDGMClassifier(random_state=0).partial_fit(X[:40], y[:40], classes=[0, 1, 2])
    assert counted
    assert max(counted) <= 40
    counted.clear()
    new.partial_fit(X[40:], y[40:])
    assert counted == []
    new.set_params(epochs=1).fit(X, y)
    assert counted == [50, 50]

"""What the estimators decide by the rows, and in which order they learn."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from mmdgm import MaxMarginDGMClassifier, factors, model
from mmdgm.data.dataset import Column, Dataset, Schema
from mmdgm.estimator import generative, learning
from mmdgm.estimator.plan import Settings, recipe_for
from mmdgm.recipes import Recipe
from mmdgm.runtime import Runtime
from mmdgm.sampling import class_latents


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


def test_every_part_of_a_stream_has_noise_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    def noting(rows: Dataset, how: learning.How, before: learning.Learned | None) -> learning.Learned:
        seeds.append(how.seed)
        return learning.learn(rows, how, before)

    monkeypatch.setattr(generative, "learn", noting)
    X, y = blobs(20)
    new = MaxMarginDGMClassifier(random_state=0, adversary=0.1)
    for _ in range(2):
        new.partial_fit(X, y, classes=[0, 1, 2])
    assert len(set(seeds)) == 2
    reach = new._learned.model.recipe.adversary
    assert new.partial_fit(9 * X, y)._learned.model.recipe.adversary == reach


def test_the_spread_of_pixels_is_in_their_own_units() -> None:
    images = np.random.default_rng(0).random((30, 4, 4))
    images[0, 0], images[1, 1] = 0, 1
    holed = images[:3].copy()
    holed[:, :2] = np.nan
    y = np.arange(30) % 2
    spreads = [
        MaxMarginDGMClassifier(epochs=2, random_state=0).fit(k * images, y).impute(k * holed, return_spread=True)[1]
        for k in (1, 16)
    ]
    assert spreads[0].max() > 0
    np.testing.assert_allclose(spreads[1], 16 * spreads[0], rtol=1e-3)


def test_pixels_beyond_the_range_of_the_training_rows_are_at_its_ends() -> None:
    images = np.random.default_rng(0).random((30, 4, 4))
    images[0, 0], images[1, 1] = 0, 1
    new = MaxMarginDGMClassifier(epochs=2, random_state=0).fit(images, np.arange(30) % 2)
    beyond = 3 * images - 1
    assert np.array_equal(new.decision_function(beyond), new.decision_function(np.clip(beyond, 0, 1)))


def test_the_only_row_of_a_class_or_with_a_value_is_never_held_out() -> None:
    x = np.random.default_rng(0).random((40, 3))
    x[1:, 2] = np.nan
    y = np.array([0] * 39 + [1])
    columns = tuple(Column(f"x{i}", "real") for i in range(3))
    rows = Dataset("rows", x, y, ("a", "b"), Schema(columns=columns), weights=np.ones(40))
    count = 0
    for seed in range(10):
        how = learning.How(planned(40), Runtime("cpu", "float32", False), seed, 0.9, False, 1, lambda _: None)
        rest, held = learning.hold_out(rows, how)
        assert len(rest) + len(held) == 40
        assert (rest.y == 1).sum() == 1
        assert not np.isnan(rest.x[:, 2]).all()
        count += len(held)
    assert count > 300


def test_the_latents_of_a_class_count_rows_by_their_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Tensor] = []

    def noting(found: Any, rows: Any, weights: Tensor) -> Any:
        counted.append(weights)
        return class_latents(found, rows, weights)

    monkeypatch.setattr(learning, "class_latents", noting)
    X, y = blobs(20)
    MaxMarginDGMClassifier(epochs=1, random_state=0).fit(X, y, sample_weight=np.full(20, 3.0))
    assert [weights.tolist() for weights in counted] == [[3.0] * 20]

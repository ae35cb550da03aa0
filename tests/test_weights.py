"""Weights of rows and of classes, positive columns, temperatures, strangeness: the parts under the estimators."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

from mmdgm.calibration import probabilities, temperature
from mmdgm.data.batches import Batch, resident
from mmdgm.data.dataset import UNKNOWN, Column, Dataset, Schema
from mmdgm.data.splits import Splits
from mmdgm.data.weights import at_least_once, merged, places, rows_in_places
from mmdgm.errors import InputError
from mmdgm.evaluation import importance_weighted
from mmdgm.filling import fill_rows
from mmdgm.gradients import estimate, observe
from mmdgm.imputation import Imputer, impute
from mmdgm.model import MaxMarginDGM, initialised
from mmdgm.networks import Linear
from mmdgm.novelty import Regret, Typical, likelihood_regret, terms
from mmdgm.objective import Objective
from mmdgm.optimisation import build_optimiser
from mmdgm.runtime import generator
from mmdgm.sampling import ClassLatents, class_latents, sample_of_classes
from mmdgm.training import Trainer
from tests.conftest import COLUMNS, PLAIN, factor_analysis, rows, small, table

CPU = torch.device("cpu")


def _generative(made: MaxMarginDGM) -> tuple[torch.Tensor, torch.Tensor]:
    """W and b of p(x | z) = N(Wz + b, I)."""
    assert made.generative is not None
    assert isinstance(made.generative.output, Linear)
    return made.generative.output.weight, made.generative.output.bias


def test_whole_weights_are_rows_repeated_and_draws_do_not_matter() -> None:
    weights = np.array([2.0, 0.0, 1.0, 3.0])
    assert places(weights) == 6
    for u in (np.zeros(6), np.full(6, 0.999)):
        assert rows_in_places(weights, u).tolist() == [0, 0, 2, 3, 3, 3]


def test_a_weight_is_how_often_a_row_is_drawn_on_average() -> None:
    weights = np.array([0.5, 1.25, 1.25])
    u = np.random.default_rng(0).random((4000, 3))
    count = np.bincount(np.concatenate([rows_in_places(weights, one) for one in u]), minlength=3) / 4000
    np.testing.assert_allclose(count, weights, atol=0.03)


def test_small_weights_are_scaled_until_every_row_has_a_place() -> None:
    assert at_least_once(np.array([0.25, 0.25, 0.0])).tolist() == [1.0, 1.0, 0.0]
    assert at_least_once(np.array([1.0, 3.0])).tolist() == [1.0, 3.0]


def test_equal_rows_are_merged_whatever_their_order() -> None:
    x = np.array([[1.0, np.nan], [0.0, 2.0], [1.0, np.nan], [-0.0, 2.0], [0.0, 2.0], [5.0, 5.0]])
    y = np.array([0, 1, 0, 1, UNKNOWN, 0])
    data = Dataset("d", x, y, ("a", "b"), Schema(columns=COLUMNS.columns[:2]), weights=np.array([1, 1, 2, 3, 1, 0.0]))
    found = merged(data)
    assert sorted(found.weights.tolist()) == [1.0, 3.0, 4.0]  # type: ignore[union-attr]
    turned = merged(data.take(np.array([4, 3, 5, 1, 2, 0])))
    np.testing.assert_array_equal(found.x, turned.x)
    np.testing.assert_array_equal(found.y, turned.y)
    np.testing.assert_array_equal(found.weights, turned.weights)


def test_training_on_weights_is_training_on_repeated_rows() -> None:
    data = table(60)
    weights = np.random.default_rng(0).integers(0, 4, 60).astype(float)
    recipe = small(likelihood="columns", split="whole", batch_size=20)

    def trained(part: Dataset) -> torch.Tensor:
        empty = part.take(np.arange(0))
        state = Trainer(recipe, Splits(part, empty, empty), 0, PLAIN).run()
        assert state is not None
        return torch.cat([p.flatten() for p in state.model.parameters()])

    repeated = data.take(np.repeat(np.arange(60), weights.astype(int)))
    assert torch.equal(trained(replace(data, weights=weights)), trained(repeated))
    assert not torch.equal(trained(replace(data, weights=weights)), trained(data))


def test_a_class_counts_as_much_as_its_weight_says() -> None:
    made, x, _ = factor_analysis()
    y = torch.arange(50) % 3 - 1
    batch = Batch(x.float(), torch.ones_like(x, dtype=torch.bool), y)

    def hinge(**changes: object) -> float:
        model = initialised(small(likelihood="gaussian-fixed", **changes), made.schema, 2, 0)
        noise = model.draw_noise(50, generator("cpu", 0))
        return estimate(model, observe(model, batch, noise), noise, Objective(1.0, 3.0, 1.0, 50)).terms.hinge.item()

    first, second = (y == 0).sum().item(), (y == 1).sum().item()
    assert hinge() == pytest.approx(3.0 * (first + second) / 50)  # no weights yet: every hinge is the margin
    assert hinge(class_weights=(2.0, 0.5)) == pytest.approx(3.0 * (2 * first + 0.5 * second) / 50)
    score = {"estimator": "score", "samples": 2, "class_weights": (2.0, 0.5)}
    assert hinge(**score) == pytest.approx(3.0 * (2 * first + 0.5 * second) / 50)


def test_class_weights_must_not_be_negative() -> None:
    with pytest.raises(InputError, match="class_weights must be numbers of at least 0"):
        small(class_weights=(1.0, -1.0))


def test_a_positive_column_is_standardised_on_a_logarithmic_scale() -> None:
    x = np.array([[1.0, 0.0], [np.e, 2.0], [np.e**2, np.nan]])
    schema = Schema(columns=(Column("a", "positive"), Column("b", "positive"))).fitted(x)
    assert schema.columns[0].offset == 0
    assert schema.columns[1].offset == 1.0
    coded = schema.encode(x)
    assert np.abs(coded[:, 0] - np.array([-1, 0, 1]) * np.sqrt(1.5)).max() < 1e-6
    np.testing.assert_allclose(schema.decode(coded.astype(np.float32))[:2], x[:2], atol=1e-5)
    assert (schema.decode(np.full((1, 2), -50, dtype=np.float32)) >= 0).all()


def test_the_mean_of_weighted_rows_is_that_of_repeated_ones() -> None:
    x, w = np.random.default_rng(0).normal(size=(5, 3)), np.array([1.0, 0, 2, 3, 1])
    repeated = COLUMNS.fitted(x.repeat(w.astype(int), 0))
    for one, other in zip(COLUMNS.fitted(x, w).columns, repeated.columns, strict=True):
        assert (one.mean, one.scale) == pytest.approx((other.mean, other.scale))


def test_the_spread_of_a_positive_column_is_in_its_own_units() -> None:
    x = np.random.default_rng(0).lognormal(5, 0.1, (40, 1))
    x[0] = np.nan
    schema = Schema(columns=(Column("a", "positive"),)).fitted(x)
    model = initialised(small(likelihood="columns"), schema, 2, 0)
    data = Dataset("d", x, np.zeros(40, dtype=np.int64), ("a", "b"), schema)
    found = fill_rows(model, x, resident(data, CPU), Imputer("direct", steps=9), 0, None, lambda _d, _o: None)
    assert 3 < found.spread[0, 0] < 60  # a tenth of e^5, not of its logarithm


def test_a_temperature_finds_the_one_that_made_the_labels() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4000, 3)) * 4
    y = np.array([rng.choice(3, p=p) for p in softmax(scores / 2.5, axis=1)])
    assert temperature(scores, y, np.ones(4000)) == pytest.approx(2.5, rel=0.1)
    assert temperature(scores * 10, y, np.ones(4000)) == pytest.approx(25, rel=0.1)
    np.testing.assert_allclose(np.log(probabilities(scores, 2.0)), log_softmax(scores / 2.0, axis=1), atol=1e-9)


def test_a_few_rows_that_are_all_right_do_not_make_certain() -> None:
    scores = np.array([[5.0, 0.0], [0.0, 5.0], [5.0, 0.0]])
    found = probabilities(scores, temperature(scores, np.array([0, 1, 0]), np.ones(3)))
    assert 0.6 < found.max() < 0.9


def test_the_regret_is_the_rate_that_a_wrong_q_wastes() -> None:
    """q has the true mean and e times the variance; with p(x) known, the bound's gap is KL(q || p(z | x))."""
    made, x, _ = factor_analysis()
    K = made.recipe.latent_size
    gap = 0.5 * K * (np.e - 1 - 1)
    W, _ = _generative(made)
    precision = torch.eye(K) + W.T @ W
    variance = made.recognition(x, torch.ones_like(x, dtype=torch.bool)).q.variance[0]
    exact = 0.5 * ((precision.diagonal() * variance).sum() - K - variance.log().sum() - torch.logdet(precision))
    found = likelihood_regret(made, rows(x), Regret(steps=300, rate=0.02, samples=400), 0)
    best = 0.5 * (precision.diagonal().log().sum() - torch.logdet(precision))  # what no diagonal q can regain
    assert gap > 0
    torch.testing.assert_close(found, (exact - best).expand(50).detach(), atol=0.12, rtol=0)
    assert (found >= 0).all()


def test_what_is_strange_is_far_from_typical_and_holes_do_not_matter_much() -> None:
    made, x, _ = factor_analysis()
    how = Regret(steps=5)
    typical = Typical.fitted(made, rows(x), how, 0)
    own, far = typical.distance(made, rows(x), how, 0), typical.distance(made, rows(x * 6), how, 0)
    assert own.mean() == pytest.approx(3, rel=0.1)  # of three statistics, less what the ridge takes
    assert np.median(far) > 10 * np.median(own)
    D, R = terms(made, rows(x), 4, 0)
    alone = terms(made, rows(x[7:8]), 4, 0)
    torch.testing.assert_close(torch.stack([D[7:8], R[7:8]]), torch.stack(alone))


def test_common_noise_makes_a_row_independent_of_its_neighbours() -> None:
    made, x, _ = factor_analysis()
    observed = torch.arange(150).reshape(50, 3) % 4 > 0
    holed = Batch(x * observed, observed, torch.zeros(50, dtype=torch.long))
    how = Imputer("direct", steps=7, burn_in=0, chains=1, common=True)
    whole, alone = impute(made, holed, how), impute(made, holed.between(9, 10), how)
    torch.testing.assert_close(whole.x[9:10], alone.x)
    whole_bound = importance_weighted(made, holed, 9, generator("cpu", 0), common=True)
    alone_bound = importance_weighted(made, holed.between(9, 10), 9, generator("cpu", 0), common=True)
    torch.testing.assert_close(whole_bound[9:10], alone_bound)
    with pytest.raises(InputError, match="common noise"):
        Imputer("chain", common=True)


def test_latents_of_a_class_have_the_moments_of_its_mixture() -> None:
    made, x, _ = factor_analysis()
    batch = rows(x)._replace(y=torch.arange(50) % 2)
    weights = torch.arange(50, dtype=torch.float64)
    found = class_latents(made, batch, weights)
    own = torch.arange(50) % 2 == 1
    q = made.recognition(x[own], torch.ones_like(x[own], dtype=torch.bool)).q
    picked = torch.multinomial(weights[own], 200_000, replacement=True, generator=generator("cpu", 0))
    z = q.mean[picked] + q.stddev[picked] * torch.randn(200_000, 2, generator=generator("cpu", 1)).double()
    torch.testing.assert_close(found.means[1], z.mean(0), atol=0.02, rtol=0)
    torch.testing.assert_close(found.factors[1] @ found.factors[1].T, torch.cov(z.T), atol=0.02, rtol=0.02)
    apart = ClassLatents(torch.tensor([[0.0, 0], [50, 0]]).double(), 1e-6 * torch.eye(2).double().repeat(2, 1, 1))
    drawn = sample_of_classes(made, torch.tensor([0, 1, 0]), apart)
    W, b = _generative(made)
    np.testing.assert_allclose(drawn[1], (W @ torch.tensor([50.0, 0]).double() + b).detach(), rtol=1e-3)
    assert np.array_equal(drawn[0].round(2), drawn[2].round(2))


def test_the_generative_network_may_decay_less() -> None:
    model = initialised(small(likelihood="columns", weight_decay=0.5, generative_weight_decay=0.1), COLUMNS, 2, 0)
    groups = build_optimiser(model, model.recipe).param_groups
    decay = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    assert len(decay) == len(list(model.parameters()))
    for name, p in model.named_parameters():
        expected = 0.1 if name.startswith("generative.") else 0.5
        matrix = p.ndim > 1 and not name.startswith("classifier.")
        assert decay[id(p)] == (expected if matrix else 0.0), name

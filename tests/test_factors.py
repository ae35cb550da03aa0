"""Factor analysis of rows with holes, and networks that go on from it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from mmdgm.data.batches import resident
from mmdgm.data.dataset import Column, Dataset, Schema
from mmdgm.data.splits import split
from mmdgm.errors import InputError
from mmdgm.factors import Factors, fit_factors
from mmdgm.model import MaxMarginDGM, initialised
from mmdgm.recipes import Recipe
from mmdgm.runtime import Runtime
from mmdgm.training import Trainer

LOADINGS = torch.tensor([[1.2, 0.0], [0.9, 0.4], [0.0, 1.1], [-0.7, 0.5], [0.3, -0.8]], dtype=torch.float64)
NOISE = torch.tensor([0.2, 0.5, 0.1, 0.4, 0.3], dtype=torch.float64)
COVARIANCE = LOADINGS @ LOADINGS.T + NOISE.diag()


def rows(
    n: int, share: float = 0.3, seed: int = 0, loadings: Tensor = LOADINGS, noise: Tensor = NOISE
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows whose covariance is known, 0 where they have holes; where they are seen; and how they were before."""
    key = torch.Generator().manual_seed(seed)
    z = torch.randn(n, 2, generator=key, dtype=torch.float64)
    whole = z @ loadings.T + torch.randn(n, len(loadings), generator=key, dtype=torch.float64) * noise.sqrt()
    seen = torch.rand(whole.shape, generator=key) >= share
    return whole * seen, seen, whole


def expected(x: Tensor, seen: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
    """The conditional mean of all entries, and of z given LOADINGS, row by row: S_mo S_oo^-1 x_o."""
    filled, z = x.clone(), x.new_zeros(len(x), 2)
    for i in range(len(x)):
        o = seen[i]
        said = torch.linalg.solve(covariance[o][:, o], x[i, o])
        filled[i, ~o] = covariance[~o][:, o] @ said
        z[i] = LOADINGS[o].T @ said
    return filled, z


def known() -> Factors:
    """The analysis that made `rows`, as if it were certain."""
    factors = Factors(5, 2).double()
    factors.loadings.copy_(LOADINGS)
    factors.psi.copy_(NOISE)
    factors.precision.copy_((LOADINGS[:, :, None] * LOADINGS[:, None, :] / NOISE[:, None, None]).flatten(1))
    return factors


def test_holes_are_filled_by_the_conditional_mean() -> None:
    x, seen, _ = rows(40)
    found = known()(x, seen)
    filled, z = expected(x, seen, COVARIANCE)
    torch.testing.assert_close(found.x, filled)
    torch.testing.assert_close(found.mean, z)
    o = seen[0]
    S = torch.eye(2).double() - LOADINGS[o].T @ torch.linalg.solve(COVARIANCE[o][:, o], LOADINGS[o])
    torch.testing.assert_close(found.variance[0], S.diagonal())


def test_whole_rows_and_empty_ones() -> None:
    x, _, whole = rows(6)
    full = torch.ones(1, 1, dtype=torch.bool).expand(whole.shape)
    one_by_one = known()(whole, full.contiguous())
    for part, other in zip(known()(whole, full), one_by_one, strict=True):
        torch.testing.assert_close(part, other)
    assert torch.equal(one_by_one.x, whole)
    nothing = known()(0 * x, torch.zeros_like(x, dtype=torch.bool))
    assert torch.equal(nothing.mean, torch.zeros(6, 2).double())
    torch.testing.assert_close(nothing.variance, torch.ones(6, 2).double())


def test_columns_in_their_own_units() -> None:
    x, seen, _ = rows(10)
    factors = known()
    factors.center.copy_(torch.arange(5.0))
    factors.unit.copy_(torch.tensor([2.0, 1, 1, 3, 1]))
    shifted = (x * factors.unit + factors.center) * seen
    torch.testing.assert_close(factors(shifted, seen).mean, known()(x, seen).mean)
    back = (factors(shifted, seen).x - factors.center) / factors.unit
    torch.testing.assert_close(back, known()(x, seen).x)


def test_what_made_the_rows_is_found() -> None:
    x, seen, whole = rows(3000)
    factors = Factors(5, 2).double()
    fit_factors(factors, 3 * x + 7 * seen, seen, torch.ones(3000))
    w = factors.loadings * factors.unit.unsqueeze(-1) / 3
    made = w @ w.T + (factors.psi * (factors.unit / 3).square()).diag()
    torch.testing.assert_close(made, COVARIANCE, atol=0.12, rtol=0)
    filled = (factors(3 * x + 7 * seen, seen).x - 7) / 3
    ours, best = ((f - whole)[~seen].square().mean() for f in (filled, expected(x, seen, COVARIANCE)[0]))
    assert ours < 1.02 * best


def test_factors_are_independent_given_a_whole_row_and_in_order() -> None:
    x, seen, _ = rows(500)
    factors = Factors(5, 2).double()
    fit_factors(factors, x, seen, torch.ones(500))
    M = factors.precision.sum(0).unflatten(0, (2, 2))
    assert abs(M[0, 1]) < 1e-8 * M[0, 0]
    assert M[0, 0] > M[1, 1]


def test_few_rows_with_many_holes_are_not_believed_too_much() -> None:
    """Six factors of sixty rows: were the loadings taken for certain, the noise would be explained away."""
    loadings = torch.randn(12, 2, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    errors = []
    for seed in range(3):
        x, seen, _ = rows(60, 0.6, seed, loadings, torch.ones(12))
        factors = Factors(12, 6).double()
        fit_factors(factors, x, seen, torch.ones(60))
        assert factors.psi.min() > 0.1
        new, holes, whole = rows(1000, 0.6, 99, loadings, torch.ones(12))
        misses = (factors(new, holes).x - whole)[~holes].square().mean()
        errors.append(float(misses / whole[~holes].square().mean()))
    assert np.mean(errors) < 0.72


def test_a_weight_of_two_is_a_row_twice() -> None:
    x, seen, _ = rows(30)
    weights = torch.ones(30)
    weights[:10] = 2
    once, twice = Factors(5, 2).double(), Factors(5, 2).double()
    fit_factors(once, x, seen, weights)
    fit_factors(twice, torch.cat([x, x[:10]]), torch.cat([seen, seen[:10]]), torch.ones(40))
    for name, value in once.state_dict().items():
        if name != "loadings":  # which may point the other way
            torch.testing.assert_close(value.abs(), twice.state_dict()[name].abs(), atol=1e-6, rtol=1e-6)


def test_a_column_that_never_varies_says_nothing() -> None:
    x, seen, _ = rows(50)
    x[:, 2], seen[:, 2] = 4.0, True
    factors = Factors(5, 2).double()
    fit_factors(factors, x, seen, torch.ones(50))
    assert factors.unit[2] == 1
    assert factors.loadings[2].abs().max() < 1e-6
    assert all(bool(value.isfinite().all()) for value in factors.state_dict().values())


def table() -> Dataset:
    """Two numbers, a truth value and a category that go together, with holes."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=200)
    columns = [z + 0.3 * rng.normal(size=200) for _ in range(2)]
    columns += [(z + 0.3 * rng.normal(size=200) > 0.5).astype(float), np.digitize(z, (-0.5, 0.5)).astype(float)]
    x = np.stack(columns, axis=1)
    x[rng.random(x.shape) < 0.2] = np.nan
    kinds = (Column("a", "real"), Column("b", "real"), Column("c", "binary"), Column("d", "categorical", tuple("lmh")))
    return Dataset("table", x, (z > 0).astype(np.int64), ("no", "yes"), Schema(None, kinds).fitted(x))


def recipe(**changes: object) -> Recipe:
    small = Recipe(split="whole", hidden=(16,), latent_size=2, likelihood="columns", missing="factors", epochs=2)
    return replace(small, **changes)  # type: ignore[arg-type]


def trainer(seed: int = 0, **changes: object) -> Trainer:
    return Trainer(recipe(**changes), split(table(), "whole", 0), seed, Runtime("cpu", "float32", compile=False))


def test_both_networks_start_as_factor_analysis() -> None:
    model, rows = trainer().state.model.double().eval(), resident(table(), torch.device("cpu"))
    assert model.recognition.factors is not None
    assert model.generative is not None
    x = rows.x.double()
    analysed = model.recognition.factors(x, rows.observed)
    recognised = model.recognition(x, rows.observed)
    torch.testing.assert_close(recognised.q.mean, analysed.mean)
    torch.testing.assert_close(recognised.q.variance, analysed.variance)
    torch.testing.assert_close(recognised.hidden[0], analysed.x)
    p = model.generative(recognised.q.mean.unsqueeze(0))
    missing = ~rows.observed[:, :2]
    torch.testing.assert_close(p.mean[0, :, :2][missing], analysed.x[:, :2][missing])
    factors = model.recognition.factors
    torch.testing.assert_close(p.variance[0, 0, :2], (factors.psi * factors.unit.square())[:2])
    torch.testing.assert_close(p.mean[..., 3:].sum(-1), torch.ones(1, 200).double())
    known = rows.observed[:, 2]
    said = p.mean[0, known, 2]
    assert ((said > 0.5) == (x[known, 2] > 0.5)).double().mean() > 0.8
    prior = model.generative(torch.zeros(1, 1, 2).double()).mean[0, 0]
    torch.testing.assert_close(prior[2:], factors.center[2:], atol=1e-5, rtol=1e-5)


def test_the_classifier_reads_the_completed_row_too() -> None:
    model = trainer().state.model
    assert model.classifier.linear.in_features == 6 + 16
    assert initialised(recipe(features="last"), table().schema, 2, 0).classifier.linear.in_features == 16


def test_the_analysis_stays_as_it_is_while_the_networks_learn() -> None:
    made = trainer()
    before = {k: v.clone() for k, v in made.state.model.recognition.factors.state_dict().items()}  # type: ignore[union-attr]
    made.run()
    after = made.state.current.recognition.factors
    assert after is not None
    assert all(torch.equal(v, after.state_dict()[k]) for k, v in before.items())
    assert made.state.model.generative is not None
    assert torch.as_tensor(made.state.model.generative.output.weight).abs().max() > 0


def test_the_same_seed_finds_the_same_factors() -> None:
    def found(model: MaxMarginDGM) -> list[Tensor]:
        return list(model.state_dict().values())

    assert all(map(torch.equal, found(trainer(1).state.model), found(trainer(1).state.model)))


@pytest.mark.parametrize("changes", [{"likelihood": "gaussian"}, {"latents": "bernoulli"}, {"bound": False}])
def test_factors_need_numbers_and_gaussian_latents(changes: dict[str, object]) -> None:
    with pytest.raises(InputError, match="missing=factors needs bound=true"):
        recipe(**changes)

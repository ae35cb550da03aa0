"""Filling in, where the right answer is a formula: p(x) = N(b, I + W W^T), so p(x_m | x_o) is normal, too."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from mmdgm.data.batches import Batch
from mmdgm.diagnostics import effective_sample_size, r_hat
from mmdgm.errors import InputError
from mmdgm.imputation import METHODS, Imputation, Imputer, impute
from mmdgm.model import MaxMarginDGM, initialised
from mmdgm.runtime import Runtime
from mmdgm.transitions import Method
from tests.conftest import factor_analysis, small, table

HOLE = torch.tensor([[False, True, True], [True, False, True], [False, False, True], [True, True, True]])


def holed() -> tuple[MaxMarginDGM, Batch, torch.Tensor, torch.Tensor]:
    """A model, four rows with holes, and the mean and standard deviation of what is missing."""
    made, x, _ = factor_analysis()
    generative = made.generative
    assert generative is not None
    W, b = (p.detach() for p in generative.output.parameters())
    covariance = torch.eye(3).double() + W @ W.T
    mean, spread = x[:4].clone(), torch.zeros(4, 3).double()
    for row, missing in enumerate(HOLE):
        observed = ~missing
        gain = covariance[missing][:, observed] @ torch.linalg.inv(covariance[observed][:, observed])
        mean[row, missing] = b[missing] + gain @ (x[row, observed] - b[observed])
        left = covariance[missing][:, missing] - gain @ covariance[observed][:, missing]
        spread[row, missing] = left.diagonal().sqrt()
    batch = Batch(x[:4] * ~HOLE, ~HOLE, torch.zeros(4, dtype=torch.long))
    return made, batch, mean, spread


def filled(method: Method, **how: int) -> tuple[Imputation, Batch, torch.Tensor, torch.Tensor]:
    made, batch, mean, spread = holed()
    settings: dict[str, Any] = {"steps": 4000, "burn_in": 0, "chains": 5} | how
    return impute(made, batch, Imputer(method, **settings)), batch, mean, spread


@pytest.mark.parametrize("method", ["metropolis", "importance"])
def test_exact_methods_find_mean_and_spread_although_q_is_wrong(method: Method) -> None:
    """The model's q is too wide, and with holes off its place: acceptance and weights make up for it."""
    found, _, mean, spread = filled(method)
    torch.testing.assert_close(found.x, mean, atol=0.05, rtol=0)
    torch.testing.assert_close(found.spread, spread, atol=0.05, rtol=0)


def test_the_paper_chain_has_the_right_mean_for_a_linear_model() -> None:
    found, _, mean, _ = filled("chain", burn_in=200)
    torch.testing.assert_close(found.x, mean, atol=0.06, rtol=0)


def test_direct_answers_what_q_says() -> None:
    """q's mean of z for the row with zeros in its hole, through the generative network."""
    made, batch, _, _ = holed()
    found = impute(made, batch, Imputer("direct", steps=4000, chains=5))
    assert made.generative is not None
    expected = made.generative(made.recognition(batch.x, batch.observed).q.mean.unsqueeze(0)).mean[0]
    torch.testing.assert_close(found.x[HOLE], expected[HOLE], atol=0.06, rtol=0)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_observed_comes_back_to_the_bit(method: Method) -> None:
    found, batch, _, _ = filled(method, steps=10, copies=3)
    for x in (found.x, found.last, *found.copies):
        assert torch.equal(x[~HOLE], batch.x[~HOLE])
    assert bool((found.spread[~HOLE] == 0).all())


@pytest.mark.parametrize("method", ["metropolis", "importance"])
def test_copies_are_draws_of_what_is_missing(method: Method) -> None:
    found, _, mean, spread = filled(method, copies=2000)
    torch.testing.assert_close(found.copies.mean(0), mean, atol=0.12, rtol=0)
    torch.testing.assert_close(found.copies.std(0), spread, atol=0.12, rtol=0)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_answer_and_a_row_alone_is_enough(method: Method) -> None:
    made, batch, _, _ = holed()
    how = Imputer(method, steps=12, burn_in=4, copies=1)
    first, second = (impute(made, batch, how, seed=5) for _ in range(2))
    assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(first, second, strict=True))
    assert not torch.equal(first.x, impute(made, batch, how, seed=6).x)
    assert impute(made, batch.between(0, 1), how).x.isfinite().all()


@pytest.mark.parametrize("method", METHODS)
def test_a_table_with_all_kinds_of_columns(method: Method) -> None:
    data = table()
    schema = data.schema.fitted(data.x)
    model = initialised(small(likelihood="columns", latent_size=2), schema, 2, 0)
    x = torch.from_numpy(schema.encode(data.x))
    batch = Batch(x.nan_to_num(), ~x.isnan(), torch.from_numpy(data.y))
    found = impute(model, batch, Imputer(method, steps=20, burn_in=5, copies=2))
    assert found.x.isfinite().all()
    torch.testing.assert_close(found.x[:, 2:].sum(1), torch.ones(len(x)))
    drawn = found.copies[:, :, 2:]
    assert bool(((drawn == 0) | (drawn == 1)).all())
    assert bool((found.spread[~batch.observed] > 0).all())


@pytest.mark.parametrize("method", ["chain", "importance", "direct"])
def test_compiled_gives_the_same_as_plain_and_fills_the_last_part_up(method: Method) -> None:
    data = table(30)
    schema = data.schema.fitted(data.x)
    model = initialised(small(likelihood="columns", latent_size=2), schema, 2, 0)
    x = torch.from_numpy(schema.encode(data.x))
    batch = Batch(x.nan_to_num(), ~x.isnan(), torch.from_numpy(data.y))
    how = Imputer(method, steps=6, burn_in=2, chains=200)
    found = impute(model, batch.between(0, 5), how, runtime=Runtime("cpu", "float32", compile=True))
    torch.testing.assert_close(found.x, impute(model, batch.between(0, 5), how).x, atol=1e-5, rtol=0)
    assert len(impute(model, batch.between(0, 7), how, runtime=Runtime("cpu", "float32", compile=True)).x) == 7


def test_nothing_missing_needs_no_diagnosis() -> None:
    made, batch, _, _ = holed()
    whole = batch._replace(observed=torch.ones_like(HOLE))
    found = impute(made, whole, Imputer(steps=10, burn_in=2))
    assert torch.equal(found.x, batch.x)
    assert found.r_hat.isnan().all()
    assert found.draws.isnan().all()


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9, -0.4, 0.99])
@pytest.mark.parametrize("steps", [100, 201])
def test_diagnostics_are_those_of_arviz(correlation: float, steps: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz
    rng = np.random.default_rng(3)
    traces = np.zeros((3, steps, 4))
    for t in range(steps):
        traces[:, t] = correlation * traces[:, t - 1] + rng.normal(size=(3, 4))
    ours = torch.from_numpy(traces)
    for row in range(4):
        one = traces[:, :, row]
        assert r_hat(ours)[row].item() == pytest.approx(arviz.rhat(one, method="split"), rel=1e-6)
        assert effective_sample_size(ours)[row].item() == pytest.approx(
            arviz.ess(one, method="mean"), rel=1e-6 if steps % 2 == 0 else 0.02
        )


def test_chains_that_do_not_meet_are_found_out() -> None:
    """Two chains around 0 and around 3; and two that drift."""
    rng = torch.Generator().manual_seed(0)
    apart = torch.randn((2, 100, 1), generator=rng) + torch.tensor([0.0, 3.0])[:, None, None]
    drift = torch.randn((2, 100, 1), generator=rng) + torch.linspace(0, 5, 100)[None, :, None]
    together = torch.randn((2, 100, 1), generator=rng)
    hats = r_hat(torch.cat([apart, drift, together], dim=-1))
    assert bool((hats[:2] > 1.2).all())
    assert hats[2] < 1.05
    assert r_hat(torch.ones(2, 10, 1)).item() == 1
    assert effective_sample_size(torch.ones(2, 10, 1)).item() == 20


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "steps must be at least 1; got 0"),
        ({"burn_in": 100}, "burn_in must be below steps; got 100 of 100"),
        ({"chains": 0}, "chains must be at least 1"),
        ({"copies": 161}, "copies must be at most the draws that are kept, 160; got 161"),
        ({"method": "gibs"}, "unknown method 'gibs'"),
    ],
)
def test_bad_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Imputer(**settings)  # type: ignore[arg-type]


def test_a_model_without_a_generative_network_cannot_impute() -> None:
    _, batch, _, _ = holed()
    classifier = initialised(small(bound=False, C=1.0), table().schema, 2, 0)
    with pytest.raises(InputError, match="no generative network"):
        impute(classifier, batch, Imputer())

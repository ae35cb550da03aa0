"""The objective, against values worked by hand and against torch's own distributions."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Bernoulli, Normal, kl_divergence

from mmdgm.data.dataset import UNKNOWN, Column, Schema
from mmdgm.latents import BernoulliLatents, GaussianLatents
from mmdgm.likelihoods import ColumnsLikelihood
from mmdgm.objective import Objective, Terms, distortion, hinge, sampled_rate, true_margin

SCORES = torch.tensor([[2.0, 1.0, -1.0], [0.0, 5.0, 1.0], [1.0, 1.0, 1.0]])


def test_hinge_by_hand() -> None:
    # row 0, y = 0: max(0, 3 + 1 - 2, 3 - 1 - 2) = 2; row 1, y = 1: max(3 - 5, 0, 3 + 1 - 5) = 0
    # row 2, y = 2: max(3 + 1 - 1, 3 + 1 - 1, 0) = 3
    found = hinge(SCORES, torch.tensor([0, 1, 2]), margin=3.0)
    assert found.tolist() == [2.0, 0.0, 3.0]


def test_hinge_of_a_row_without_label_is_zero() -> None:
    found = hinge(SCORES, torch.tensor([UNKNOWN, 0, UNKNOWN]), margin=1.0)
    assert found.tolist() == [0.0, 6.0, 0.0]


@given(st.lists(st.floats(-50, 50), min_size=3, max_size=3), st.integers(0, 2), st.floats(0.1, 10))
def test_hinge_bounds_the_error_and_is_never_negative(row: list[float], y: int, margin: float) -> None:
    scores = torch.tensor([row], dtype=torch.float64)
    found = hinge(scores, torch.tensor([y]), margin).item()
    assert found >= 0
    assert found >= margin * (scores.argmax(-1).item() != y) - 1e-9


def test_true_margin_by_hand() -> None:
    assert true_margin(SCORES, torch.tensor([0, 1, 2])).tolist() == [1.0, 4.0, 0.0]


def test_objective_by_hand() -> None:
    # mean (D + R) = ((1 + 2) + (3 + 4)) / 2 = 5; C mean H = 10 * (0.5 + 1.5) / 2 = 10; 8 / (2 * 2 * 4) = 0.5
    terms = Terms(torch.tensor([1.0, 3.0]), torch.tensor([2.0, 4.0]), torch.tensor([0.5, 1.5]))
    assert Objective(C=10, margin=1, weight_variance=2, N=4)(terms, torch.tensor(8.0)).item() == 15.5


def test_distortion_counts_observed_entries_only() -> None:
    p = Bernoulli(logits=torch.zeros(1, 2, 3), validate_args=False)
    x = torch.tensor([[1.0, 0.0, 0.5], [1.0, 1.0, 1.0]])
    observed = torch.tensor([[True, True, False], [False, False, False]])
    torch.testing.assert_close(distortion(p, x, observed), torch.tensor([[2 * math.log(2), 0.0]]))


def test_gaussian_divergence_is_torchs() -> None:
    family, g = GaussianLatents(), torch.Generator().manual_seed(1)
    q = family.posterior((torch.randn(5, 4, generator=g), torch.randn(5, 4, generator=g)))
    expected = kl_divergence(q, Normal(torch.zeros(5, 4), torch.ones(5, 4))).sum(-1)
    torch.testing.assert_close(family.divergence(q), expected)


def test_bernoulli_divergence_is_torchs() -> None:
    family, g = BernoulliLatents(), torch.Generator().manual_seed(1)
    q = family.posterior((3 * torch.randn(5, 4, generator=g),))
    expected = kl_divergence(q, Bernoulli(logits=torch.zeros(5, 4))).sum(-1)
    torch.testing.assert_close(family.divergence(q), expected)


def test_the_sampled_rate_has_the_closed_form_as_its_mean() -> None:
    g = torch.Generator().manual_seed(2)
    for family, outputs in (
        (GaussianLatents(), (torch.randn(3, 4, generator=g), torch.randn(3, 4, generator=g))),
        (BernoulliLatents(), (torch.randn(3, 4, generator=g),)),
    ):
        q = family.posterior(outputs)
        z = family.make(q, family.noise((200_000, 3, 4), g))
        sampled = sampled_rate(q, family.prior(z).log_prob(z).sum(-1), z)
        error = sampled.std(0) / math.sqrt(len(sampled))
        assert ((sampled.mean(0) - family.divergence(q)).abs() < 5 * error).all()


def test_columns_likelihood_by_hand() -> None:
    schema = Schema(
        columns=(
            Column("a", "real"),
            Column("b", "real"),
            Column("c", "binary"),
            Column("d", "categorical", ("u", "v")),
        )
    )
    likelihood = ColumnsLikelihood(schema)
    p = likelihood(torch.tensor([[1.0, -1.0, 0.0, math.log(3), 0.0]]))
    x = torch.tensor([[1.0, 0.0, 1.0, 0.0, 1.0]])
    half = -0.5 * math.log(2 * math.pi)  # standard normal at its mean; one unit away: minus 1/2
    expected = torch.tensor([[half, half - 0.5, math.log(0.5), 0.0, math.log(0.25)]])
    torch.testing.assert_close(p.log_prob(x), expected)
    torch.testing.assert_close(p.mean, torch.tensor([[1.0, -1.0, 0.5, 0.75, 0.25]]))

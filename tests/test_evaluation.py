"""Figures, against values worked by hand and a model whose likelihood is a formula."""

import math

import numpy as np
import pytest
import torch

from mmdgm.errors import InputError
from mmdgm.evaluation import bound_terms, calibration_error, evaluate, importance_weighted, per_class
from mmdgm.runtime import generator
from tests.conftest import factor_analysis, rows


def test_calibration_error_by_hand() -> None:
    """Two bins: four rows of confidence 0.6 of which one is right, one row of 0.9 that is right."""
    scores = torch.tensor([[math.log(0.6 / 0.4), 0.0]] * 4 + [[math.log(9.0), 0.0]])
    y = torch.tensor([0, 1, 1, 1, 0])
    assert calibration_error(scores, y, bins=2) == pytest.approx(abs(4 * 0.6 + 0.9 - 2) / 5)
    assert calibration_error(scores, y, bins=15) == pytest.approx((4 * 0.35 + 0.1) / 5)


def test_per_class_by_hand() -> None:
    scores = torch.eye(3)[[0, 0, 1, 1]]
    lines = per_class(scores, torch.tensor([0, 1, 1, 1]), ("a", "b", "c"))
    assert [(r.label, r.examples, round(r.error_percent, 3), r.precision_percent) for r in lines] == [
        ("a", 1, 0.0, 50.0),
        ("b", 3, 33.333, 100.0),
        ("c", 0, 0.0, 0.0),
    ]


@torch.no_grad()
def test_the_bound_is_below_the_likelihood_and_importance_weights_close_the_gap() -> None:
    made, x, exact = factor_analysis()
    D, R = bound_terms(made, rows(x), 500, generator("cpu", 0))
    gaps = [(exact + D + R).mean().item()]
    gaps += [(exact - importance_weighted(made, rows(x), K, generator("cpu", 1))).mean().item() for K in (10, 2000)]
    assert gaps[0] > gaps[1] > abs(gaps[2])
    assert abs(gaps[2]) < 0.005
    assert gaps[0] < 1.5


@torch.no_grad()
def test_one_importance_sample_is_the_sampled_bound() -> None:
    made, x, _ = factor_analysis()
    many = x[:1].expand(200_000, 3)
    D, R = bound_terms(made, rows(many), 1, generator("cpu", 0))
    one = importance_weighted(made, rows(many), 1, generator("cpu", 1))
    assert one.mean().item() == pytest.approx(-(D + R).mean().item(), abs=0.02)


def test_standard_error_and_protocol() -> None:
    made, x, _ = factor_analysis()
    found = evaluate(made, rows(x), ("a", "b"), samples=3, importance_samples=7, split="valid")
    D, R = bound_terms(made, rows(x), 3, generator("cpu", 0, "bound"))
    per_row = -(D + R).detach().numpy()
    assert found.bound_nats == pytest.approx(per_row.mean())
    assert found.bound_standard_error == pytest.approx(per_row.std(ddof=1) / np.sqrt(50))
    assert found.error_percent is None
    assert (found.protocol["samples"], found.protocol["importance_samples"], found.protocol["split"]) == (
        3,
        7,
        "valid",
    )


def test_bad_counts() -> None:
    made, x, _ = factor_analysis()
    with pytest.raises(InputError, match="samples must be at least 1; got 0"):
        evaluate(made, rows(x), ("a", "b"), samples=0)
    with pytest.raises(InputError, match="importance_samples must be at least 0"):
        evaluate(made, rows(x), ("a", "b"), importance_samples=-1)

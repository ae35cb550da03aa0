import os

os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault("SCIPY_ARRAY_API", "1")  # scikit-learn skips a check of estimators without it

from dataclasses import replace

import numpy as np
import pytest
import torch

from mmdgm.data.batches import Batch
from mmdgm.data.dataset import Column, Dataset, Schema
from mmdgm.model import MaxMarginDGM, initialised
from mmdgm.networks import Linear
from mmdgm.recipes import Recipe
from mmdgm.runtime import Runtime

torch.set_num_threads(1)  # the tests' tensors are tiny; a team of threads would only wait for one another

COLUMNS = Schema(columns=tuple(Column(f"x{i}", "real") for i in range(3)))
PLAIN = Runtime("cpu", "float32", compile=False)


def small(**changes: object) -> Recipe:
    """A recipe that trains in a second."""
    base = Recipe(
        name="small",
        data="digits",
        hidden=(16, 12),
        latent_size=4,
        epochs=3,
        batch_size=50,
        learning_rate=3e-3,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def images(n: int = 200, seed: int = 0, classes: int = 3, shape: tuple[int, ...] = (6, 5)) -> Dataset:
    """Tiny images, each class bright in its own rows; bytes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    x = rng.integers(0, 60, (n, *shape), dtype=np.uint8)
    for code in range(classes):
        x[y == code, 2 * code : 2 * code + 2] += 180
    return Dataset("tiny", x, y, tuple("abc"[:classes]), Schema(image_shape=shape))


def table(n: int = 200, seed: int = 0, missing: float = 0.2) -> Dataset:
    """A table with a real, a binary and a categorical column, and holes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    x = np.stack([rng.normal(10 + 5 * y, 2), rng.random(n) < 0.2 + 0.6 * y, rng.integers(0, 3, n)], axis=1)
    x[rng.random(x.shape) < missing] = np.nan
    columns = (Column("size", "real"), Column("on", "binary"), Column("kind", "categorical", ("p", "q", "r")))
    return Dataset("table", x.astype(np.float32), y, ("no", "yes"), Schema(columns=columns))


def factor_analysis() -> tuple[MaxMarginDGM, torch.Tensor, torch.Tensor]:
    """p(x | z) = N(Wz + b, I), z ~ N(0, I): p(x) = N(b, I + W W^T). Its q has the true mean and too much variance."""
    made = initialised(
        small(hidden=(), generative_hidden=(), latent_size=2, likelihood="gaussian-fixed", C=0.0),
        COLUMNS,
        2,
        0,
    ).double()
    assert made.generative is not None
    assert isinstance(made.generative.output, Linear)
    W, b = made.generative.output.weight, made.generative.output.bias
    with torch.no_grad():
        W.copy_(torch.tensor([[1.0, 0.0], [0.5, 1.0], [0.0, -0.7]]))
        b.copy_(torch.tensor([0.3, -0.2, 0.1]))
        covariance = torch.linalg.inv(torch.eye(2) + W.T @ W)
        posterior = covariance @ W.T
        made.recognition.head.weight.copy_(torch.cat([posterior, torch.zeros(2, 3)]))
        made.recognition.head.bias.copy_(torch.cat([-posterior @ b, covariance.diagonal().log() + 1]))
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    p = torch.distributions.MultivariateNormal(b, torch.eye(3).double() + W @ W.T)
    return made, x, p.log_prob(x).detach()


def rows(x: torch.Tensor) -> Batch:
    return Batch(x, torch.ones_like(x, dtype=torch.bool), torch.zeros(len(x), dtype=torch.long))


@pytest.fixture(autouse=True)
def _leave_the_global_generator_alone() -> object:
    """No test, and nothing that a test calls, may depend on or move torch's global generator unseen."""
    torch.manual_seed(0)
    before = torch.get_rng_state()
    yield
    assert torch.equal(before, torch.get_rng_state()), "the global random state was moved"

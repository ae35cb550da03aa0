"""How well holes are filled in, and rows classified in spite of them, where the truth is known.

The mean squared error is over the missing entries alone, in the units of x: pixels in [0, 1], standardised columns.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from mmdgm.data.batches import Batch, values
from mmdgm.data.dataset import UNKNOWN
from mmdgm.diagnostics import MIXED
from mmdgm.evaluation import decision_values
from mmdgm.imputation import Imputation, Imputer, impute
from mmdgm.model import MaxMarginDGM
from mmdgm.runtime import Runtime


@dataclass(frozen=True)
class HoleFigures:
    """Figures with holes. `mse` and `error_percent` are of the estimate; the rest stands beside them to compare.

    mse_by: estimate, last_step (the paper's), zeros, means. error_by: averaged (decision values over the steps),
    last_step (the paper's), zeros, means, and seen (the row with its holes as the network was trained to see them).
    A model without a bound fills nothing in: its error is that of `seen`.
    """

    pattern: str
    examples: int
    labelled: int
    missing_percent: float
    mse: float | None
    error_percent: float | None
    error_standard_error: float | None
    mse_by: dict[str, float | None]
    error_by: dict[str, float | None]
    r_hat_median: float | None
    not_mixed_percent: float | None
    draws_median: float | None
    protocol: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As `evaluate --pattern --json` prints it."""
        return asdict(self)


@torch.no_grad()
def evaluate_with_holes(
    model: MaxMarginDGM,
    data: Batch,
    mask: Tensor,
    pattern: str,
    means: Tensor,
    how: Imputer,
    seed: int = 0,
    runtime: Runtime | None = None,
    split: str = "test",
    on_progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> tuple[HoleFigures, Imputation | None]:
    """The figures for holes where `mask` is true, and what was filled in; `means` are of the training rows."""
    runtime = runtime or Runtime(str(data.x.device), "float32", compile=False)
    truth = values(data.x)
    observed = data.observed & ~mask
    holed = Batch(truth * observed, observed, data.y)
    found = None if model.generative is None else impute(model, holed, how, seed, runtime, on_progress)
    counted = data.observed & mask
    zeros = torch.where(observed, truth, torch.zeros_like(truth))
    filled = torch.where(observed, truth, means.to(truth))
    error_by: dict[str, float | None] = {}
    if model.recipe.classifies:
        whole = torch.ones_like(observed)
        scores = {
            "zeros": decision_values(model, Batch(zeros, whole, data.y)),
            "means": decision_values(model, Batch(filled, whole, data.y)),
            "seen": decision_values(model, holed),
        }
        if found is not None:
            scores = {"averaged": found.scores, "last_step": found.last_scores, **scores}
        error_by = {name: _error(score, data.y) for name, score in scores.items()}
    guesses = {"zeros": zeros, "means": filled}
    if found is not None:
        guesses = {"estimate": found.x, "last_step": found.last, **guesses}
    mse_by = {name: _mse(x, truth, counted) for name, x in guesses.items()}
    error = error_by.get("averaged" if found is not None else "seen")
    labelled = int((data.y != UNKNOWN).sum())
    return HoleFigures(
        pattern=pattern,
        examples=len(truth),
        labelled=labelled,
        missing_percent=100 * counted.double().mean().item(),
        mse=mse_by.get("estimate"),
        error_percent=error,
        error_standard_error=None if error is None else math.sqrt(error * (100 - error) / max(1, labelled - 1)),
        mse_by=mse_by,
        error_by=error_by,
        r_hat_median=None if found is None else _median(found.r_hat),
        not_mixed_percent=None if found is None else not_mixed_percent(found),
        draws_median=None if found is None else _median(found.draws),
        protocol=_protocol(model, how, seed, runtime, split),
    ), found


def not_mixed_percent(found: Imputation) -> float | None:
    """Share of the rows with holes whose chains have not mixed; nothing where there are no chains."""
    known = found.r_hat[~found.r_hat.isnan()]
    return 100 * (known > MIXED).double().mean().item() if len(known) else None


def _protocol(model: MaxMarginDGM, how: Imputer, seed: int, runtime: Runtime, split: str) -> dict[str, Any]:
    image = model.schema.image_shape is not None
    fills = model.generative is not None
    return {
        "split": split,
        "mse": "squared error over the missing entries, " + ("pixels in [0, 1]" if image else "standardised columns"),
        "error": "decision values averaged over the steps that are kept" if fills else "of the row with its holes",
        **(asdict(how) if fills else {"method": "none", "steps": 0, "chains": 0}),
        "precision": runtime.precision,
        "imputation_seed": seed,
    }


def _mse(x: Tensor, truth: Tensor, counted: Tensor) -> float | None:
    """Over the entries that are counted, in double precision; nothing where there are none."""
    count = int(counted.sum())
    return ((x - truth).double().square() * counted).sum().item() / count if count else None


def _error(scores: Tensor, y: Tensor) -> float | None:
    known = y != UNKNOWN
    return 100 * (scores.argmax(-1) != y)[known].double().mean().item() if known.any() else None


def _median(x: Tensor) -> float | None:
    known = x[~x.isnan()]
    return known.median().item() if len(known) else None

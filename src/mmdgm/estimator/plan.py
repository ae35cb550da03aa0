"""A recipe and a runtime that suit the rows: how long, how wide the margin holds, and on what."""

from dataclasses import dataclass

import numpy as np

from mmdgm.data.batches import resident
from mmdgm.data.dataset import Dataset, has_holes
from mmdgm.data.weights import places
from mmdgm.recipes import Recipe
from mmdgm.runtime import Runtime, check_device, choose_runtime

_ROUNDS_OF_A_ROW = 2
"""Steps for each training row, within bounds: small tables are learned in seconds, large ones in minutes."""
_LEAST_STEPS, _MOST_STEPS = 100, 2000
_LEAST_BATCH, _MOST_BATCH = 64, 512
_BATCHES_OF_AN_EPOCH = 20
_LATENTS = (2, 32)
_GENERATIVE_DECAY = 0.05
"""The generative network needs little: it learns from all of a row, and a strong decay blurs what is filled in."""
_HOLES_AMONG_HOLES, _HOLES_AMONG_WHOLE_ROWS = 0.8, 0.3
_FEW_ROWS = 1000
_RATE, _RATE_OF_FEW_ROWS = 3e-3, 1e-3
"""Few rows of a table are nearly told by the factor analysis that training starts from: smaller steps keep to it."""
_WORTH_A_RUNTIME = 2e13
"""Operations from which bf16 and compiling repay; below, all is plain float32."""


@dataclass(frozen=True)
class Settings:
    """What the user chose; None where the rows decide."""

    C: float
    margin: float
    adversary: float
    latent_size: int | None
    hidden: tuple[int, ...]
    epochs: int | None
    batch_size: int | None
    learning_rate: float | None
    dropout: float
    weight_decay: float
    holes: float | None
    class_weights: tuple[float, ...] = ()


def recipe_for(settings: Settings, rows: Dataset) -> Recipe:
    """The recipe of an estimator for its (merged) training rows."""
    assert rows.weights is not None
    N = places(rows.weights)
    batch = settings.batch_size or min(max(_LEAST_BATCH, N // _BATCHES_OF_AN_EPOCH), _MOST_BATCH)
    batch = max(1, min(batch, N))
    steps = min(max(_LEAST_STEPS, _ROUNDS_OF_A_ROW * N), _MOST_STEPS)
    image = rows.schema.image_shape is not None
    return Recipe(
        name="estimator",
        summary="chosen by the scikit-learn estimator",
        data="arrays",
        split="whole",
        hidden=settings.hidden,
        activation="relu",
        normalise=N > 1,
        missing="mask" if image else "factors",
        latent_size=settings.latent_size or _latent_size(rows),
        likelihood="bernoulli" if image else "columns",
        C=settings.C,
        margin=settings.margin,
        adversary=settings.adversary * _spread(rows) if settings.C else 0.0,
        class_weights=settings.class_weights,
        epochs=settings.epochs or max(1, round(steps / max(1, N // batch))),
        batch_size=batch,
        learning_rate=float(settings.learning_rate or (_RATE if image or N >= _FEW_ROWS else _RATE_OF_FEW_ROWS)),
        weight_decay=settings.weight_decay,
        generative_weight_decay=_GENERATIVE_DECAY,
        dropout=settings.dropout,
        holes=_share_with_holes(rows) if settings.holes is None else float(settings.holes),
        ema=0.99,
    )


def _latent_size(rows: Dataset) -> int:
    """Half as many as there are columns, within bounds: with more, few rows are not enough to find a use for them."""
    least, most = _LATENTS
    width = rows.schema.width
    return most if rows.schema.image_shape is not None else min(max(least, (width + 1) // 2), most)


def _share_with_holes(rows: Dataset) -> float:
    """How many rows are shown with random holes: most where there are holes anyway, else some, for rows to come."""
    return _HOLES_AMONG_HOLES if has_holes(rows) else _HOLES_AMONG_WHOLE_ROWS


def _spread(rows: Dataset) -> float:
    """The standard deviation of the rows as vectors: the distance from their mean that a row has."""
    import torch

    seen = resident(rows, torch.device("cpu"))
    x = seen.x.numpy().astype(np.float64) / (255 if seen.x.dtype == torch.uint8 else 1)
    return float(np.sqrt(x.var(axis=0).sum()))


def runtime_for(device: str, operations: float) -> Runtime:
    """Plain float32 for small work, whatever the hardware is best at for large work."""
    check_device(device)
    if operations < _WORTH_A_RUNTIME:
        return Runtime(device, "float32", compile=False)
    return choose_runtime(device, operations=operations)

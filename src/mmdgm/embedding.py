"""Rows as numbers that mean more than their pixels: what the classifier reads of them, or the mean of q(z | x)."""

from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from mmdgm.data.batches import Batch
from mmdgm.errors import InputError, unknown
from mmdgm.model import MaxMarginDGM

Embedding = Literal["features", "latents"]
_ROWS = 5000
"""Rows that are looked at together."""


@torch.no_grad()
def embed(model: MaxMarginDGM, rows: Batch, what: Embedding = "features") -> NDArray[np.float32]:
    """(rows, numbers): the features of the max-margin classifier, or the mean of z."""
    if what not in get_args(Embedding):
        raise unknown("embedding", what, get_args(Embedding))
    if model.recipe.conditional:
        raise InputError(f"recipe '{model.recipe.name}' is conditional: what it says of a row depends on the class.")
    if what == "latents" and model.generative is None:
        raise InputError(f"recipe '{model.recipe.name}' learned no z (bound=false); embed its features.")
    model.eval()
    found = []
    for start in range(0, len(rows.x), _ROWS):
        part = rows.between(start, min(start + _ROWS, len(rows.x)))
        recognised = model.recognition(model.prepared(part).x, part.observed)
        made = recognised.q.mean if what == "latents" else model.features(recognised)
        found.append(made.float().cpu().numpy())
    whole: NDArray[np.float32] = np.concatenate(found)
    return whole

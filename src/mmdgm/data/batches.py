"""From rows in memory to the tensors of a step. Missing is normal: `observed` travels with `x` everywhere."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mmdgm.data.dataset import Dataset, Schema


class Batch(NamedTuple):
    """Rows as the networks see them.

    x: (B, D) values, 0 where missing; bytes stand for value / 255. observed: (B, D) booleans.
    y: (B,) class codes, `UNKNOWN` where there is none.
    """

    x: Tensor
    observed: Tensor
    y: Tensor

    def rows(self, index: Tensor) -> "Batch":
        """Some of the rows; a full mask stays as small as `resident` made it."""
        full = self.observed.stride(0) == 0
        observed = self.observed[:1].expand(len(index), -1) if full else self.observed.index_select(0, index)
        return Batch(self.x.index_select(0, index), observed, self.y.index_select(0, index))

    def between(self, start: int, stop: int) -> "Batch":
        """A run of rows, without a copy."""
        return Batch(self.x[start:stop], self.observed[start:stop], self.y[start:stop])


def resident(dataset: Dataset, device: torch.device) -> Batch:
    """A whole part of the data on the device, pixels still bytes; a full mask takes no memory."""
    x = dataset.schema.encode(dataset.x)
    x = x.reshape(len(x), dataset.schema.width)
    y = torch.from_numpy(dataset.y).to(device)
    holes = np.isnan(x) if x.dtype != np.uint8 else None
    if holes is None or not holes.any():
        observed = torch.ones((1, 1), dtype=torch.bool, device=device).expand(x.shape)
        return Batch(torch.from_numpy(np.ascontiguousarray(x)).to(device), observed, y)
    filled = torch.from_numpy(np.where(holes, np.float32(0), x))
    return Batch(filled.to(device), torch.from_numpy(~holes).to(device), y)


def hidden(rows: Batch, mask: NDArray[np.bool_], schema: Schema) -> Batch:
    """The rows without what a mask (true where missing, one column for each value of the user's) takes away."""
    observed = rows.observed & ~torch.from_numpy(encoded_mask(mask, schema)).to(rows.x.device)
    return rows._replace(x=rows.x * observed, observed=observed)


def encoded_mask(mask: NDArray[np.bool_], schema: Schema) -> NDArray[np.bool_]:
    """A mask of a row's values as one of what the networks see: a category is missing whole."""
    if schema.image_shape is not None:
        return np.ascontiguousarray(mask)
    return mask.repeat([column.width for column in schema.columns], axis=1)


def values(x: Tensor) -> Tensor:
    """Pixels as floats in [0, 1]; anything else as it is."""
    return x.to(torch.float32) / 255 if x.dtype == torch.uint8 else x

"""Likelihoods p(x | z): what the generative network's outputs mean.

Each is a module that turns outputs into a distribution whose `log_prob` has one number per entry of x, so that
an entry that was not observed can be left out of the sum.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Distribution, Normal
from torch.distributions.constraints import Constraint
from torch.nn import functional as F

from mmdgm.data.dataset import Schema
from mmdgm.errors import InputError, unknown

LIKELIHOODS = (
    "bernoulli",
    "bernoulli-binarised",
    "gaussian-fixed",
    "gaussian-shared",
    "gaussian",
    "gaussian-predicted",
    "columns",
)

LOG_VARIANCE_FLOOR = -6.0
"""A learned log-variance stays above this, or the bound of a constant column would grow without end."""
LOG_VARIANCE_CEILING = 4.0


class Likelihood(nn.Module):
    """p(x | z) from the generative network's outputs, of which it wants `outputs` for each entry of x."""

    outputs: int = 1

    def forward(self, outputs: Tensor) -> Distribution:
        """p(x | z); its `log_prob` has one number per entry of x."""
        raise NotImplementedError


class BernoulliLikelihood(Likelihood):
    """x in [0, 1]: log p(x | z) = x log m + (1 - x) log(1 - m), also for grey values between 0 and 1."""

    def forward(self, outputs: Tensor) -> Bernoulli:
        """The outputs are logits."""
        return Bernoulli(logits=outputs, validate_args=False)


class GaussianLikelihood(Likelihood):
    """x real: the outputs are means; the variance is fixed, or learned: one for all entries, or one for each."""

    def __init__(self, log_variances: int, learned: bool) -> None:
        super().__init__()
        start = torch.zeros(log_variances)
        self.log_variance = nn.Parameter(start) if learned else nn.Buffer(start)

    def forward(self, outputs: Tensor) -> Normal:
        """Normal distributions around the outputs."""
        scale = (0.5 * self.log_variance.clamp(min=LOG_VARIANCE_FLOOR)).exp()
        return Normal(outputs, scale.expand_as(outputs), validate_args=False)


class PredictedGaussianLikelihood(Likelihood):
    """x real: the first half of the outputs are means, the second log-variances, within bounds.

    The bounds are soft (a sigmoid between them), so that no entry loses its gradient there: without the lower one
    a pixel that never varies would make the bound grow without end.
    """

    outputs = 2

    def forward(self, outputs: Tensor) -> Normal:
        """Normal distributions with means and variances from the outputs."""
        mean, raw = outputs.chunk(2, dim=-1)
        low, high = LOG_VARIANCE_FLOOR, LOG_VARIANCE_CEILING
        middle = math.log(-low / high)  # raw = 0 gives log sigma^2 = 0
        log_variance = low + (high - low) * torch.sigmoid(raw + middle)
        return Normal(mean, (0.5 * log_variance).exp(), validate_args=False)


class ColumnsDistribution(Distribution):
    """A row of a table: real, binary and categorical columns side by side, independent given z.

    A category of k levels takes k entries (one-hot); its log-probability is sum_j x_j log p_j, entry by entry.
    """

    arg_constraints: dict[str, Constraint] = {}  # noqa: RUF012 - the name is torch's

    def __init__(self, parts: Sequence[tuple[slice, Distribution | Tensor]], shape: torch.Size) -> None:
        super().__init__(batch_shape=shape, validate_args=False)
        self.parts = parts

    def log_prob(self, value: Tensor) -> Tensor:
        """One number for each entry."""
        pieces = [
            value[..., where] * part if isinstance(part, Tensor) else part.log_prob(value[..., where])
            for where, part in self.parts
        ]
        return torch.cat(pieces, dim=-1)

    @property
    def mean(self) -> Tensor:
        """Means of real columns, probabilities of the rest."""
        return torch.cat([p.exp() if isinstance(p, Tensor) else p.mean for _, p in self.parts], dim=-1)

    @property
    def variance(self) -> Tensor:
        """Of every entry; p (1 - p) for a level of a category."""
        return torch.cat([_variance_of_levels(p) if isinstance(p, Tensor) else p.variance for _, p in self.parts], -1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """One draw of every column; a category comes as one-hot."""
        if tuple(sample_shape):
            raise NotImplementedError("draw once for each row of the distribution")
        draws = []
        for _, part in self.parts:
            if isinstance(part, Tensor):
                codes = torch.distributions.Categorical(logits=part).sample()
                draws.append(F.one_hot(codes, part.shape[-1]).to(part.dtype))
            else:
                draws.append(part.sample())
        return torch.cat(draws, dim=-1)


def _variance_of_levels(log_p: Tensor) -> Tensor:
    return log_p.exp() * (1 - log_p.exp())


class ColumnsLikelihood(Likelihood):
    """A table: real columns (Gaussian, each with a learned variance; of positive ones the logarithm), binary and
    categorical ones.
    """

    def __init__(self, schema: Schema) -> None:
        super().__init__()
        self.groups: list[tuple[str, slice]] = []
        start = 0
        for column in schema.columns:
            where = slice(start, start + column.width)
            start = where.stop
            kind = "real" if column.kind == "positive" else column.kind  # a positive column comes as its logarithm
            if self.groups and kind != "categorical" and self.groups[-1][0] == kind:
                where = slice(self.groups.pop()[1].start, where.stop)  # neighbours of a kind are one group
            self.groups.append((kind, where))
        self.log_variance = nn.Parameter(torch.zeros(start))

    def forward(self, outputs: Tensor) -> ColumnsDistribution:
        """Column by column, from the outputs that belong to it."""
        scale = (0.5 * self.log_variance.clamp(min=LOG_VARIANCE_FLOOR)).exp()

        def part(kind: str, where: slice) -> Distribution | Tensor:
            own = outputs[..., where]
            if kind == "real":
                return Normal(own, scale[where].expand_as(own), validate_args=False)
            if kind == "binary":
                return Bernoulli(logits=own, validate_args=False)
            return own.log_softmax(-1)

        return ColumnsDistribution([(w, part(kind, w)) for kind, w in self.groups], outputs.shape)


def build_likelihood(name: str, schema: Schema) -> Likelihood:
    """The likelihood of that name for rows of that schema, checked to fit each other."""
    image = schema.image_shape is not None
    if name in ("bernoulli", "bernoulli-binarised"):
        if not (image or all(column.kind == "binary" for column in schema.columns)):
            raise InputError(
                f"likelihood={name} needs values in [0, 1], but the data have real or categorical columns; "
                "use --set likelihood=columns or the recipe mmva-table."
            )
        return BernoulliLikelihood()
    if name == "columns" and image:
        raise InputError("likelihood=columns is for tables, but the data are images; use bernoulli.")
    makers: dict[str, Callable[[], Likelihood]] = {
        "columns": lambda: ColumnsLikelihood(schema),
        "gaussian-fixed": lambda: GaussianLikelihood(1, learned=False),
        "gaussian-shared": lambda: GaussianLikelihood(1, learned=True),
        "gaussian": lambda: GaussianLikelihood(schema.width, learned=True),
        "gaussian-predicted": PredictedGaussianLikelihood,
    }
    if name not in makers:
        raise unknown("likelihood", name, LIKELIHOODS)
    return makers[name]()

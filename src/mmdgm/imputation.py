"""Filling in what is missing, and classifying in spite of it (section 4.4 of the paper).

Four methods behind one interface; x_o is what is observed of a row, x_m what is not:

    chain        the paper's: z ~ q(z | x_o, x_m), then x_m := E[x_m | z], again and again from noise
    metropolis   as the chain, but z is accepted or refused and x_m is drawn from p(x_m | z), so that the chain has
                 p(z, x_m | x_o) as its limit whatever q is (Mattei and Frellsen 2018, algorithm 1)
    importance   z ~ q(z | x_o), weighted by p(x_o | z) p(z) / q(z | x_o) (Mattei and Frellsen 2019); copies are
                 resampled by the weights
    direct       the same with equal weights, for a model that was trained with holes: q(z | x_o) is its answer

The estimate of a missing entry is its mean over steps and chains, which has the least squared error; its spread is the
standard deviation of p(x_m | x_o): that of E[x_m | z] over the draws of z, and that of p(x_m | z) itself.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from mmdgm.data.batches import Batch, values
from mmdgm.diagnostics import LEAST_STEPS, effective_sample_size, r_hat
from mmdgm.errors import InputError, unknown
from mmdgm.model import MaxMarginDGM
from mmdgm.runtime import Runtime, drawing, generator
from mmdgm.transitions import TRANSITIONS, Before, Draw, Method, generative

METHODS: tuple[Method, ...] = get_args(Method)
PLAIN = Runtime("cpu", "float32", compile=False)

_ROWS = 1000
"""Rows times chains that are filled in together: what fits into the caches."""


@dataclass(frozen=True)
class Imputer:
    """How to fill in. The first `burn_in` steps of a chain count for nothing; `copies` are for multiple imputation.

    With `common` noise every row sees the same draws, so that what fills it does not depend on the rows beside it.
    """

    method: Method = "chain"
    steps: int = 100
    burn_in: int = 20
    chains: int = 2
    copies: int = 0
    common: bool = False

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise unknown("method", self.method, METHODS)
        for name, least in (("steps", 1), ("burn_in", 0), ("chains", 1), ("copies", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}; got {getattr(self, name)}.")
        if self.walks and self.burn_in >= self.steps:
            raise InputError(f"burn_in must be below steps; got {self.burn_in} of {self.steps}.")
        if self.common and (self.walks or self.copies):
            raise InputError(f"common noise is for method importance or direct, without copies; got {self.method}.")
        draws = self.chains * (self.steps - self.burn_in if self.walks else self.steps)
        if self.copies > draws:
            raise InputError(f"copies must be at most the draws that are kept, {draws}; got {self.copies}.")

    @property
    def walks(self) -> bool:
        """Whether a step starts from the one before it."""
        return self.method in ("chain", "metropolis")

    @staticmethod
    def for_model(model: MaxMarginDGM, **changes: Any) -> "Imputer":
        """What suits a model: direct for one that was trained with holes, else the chain; a fifth of it burns in."""
        how = {"method": "direct" if model.recipe.holes else "chain", **changes}
        if how["method"] == "direct":
            how = {"steps": 25, "chains": 1, **how}
        return Imputer(**{"burn_in": how.get("steps", Imputer.steps) // 5, **how})


class Imputation(NamedTuple):
    """Rows filled in, as the networks see them but for contrast, which is given back; the observed is as it was.

    scores are decision values, averaged; `last` and `last_scores` are of the last image of the first chain, the paper's
    answer. r_hat (chains) and draws (effective sample size) have one number a row, NaN where nothing is missing.
    """

    x: Tensor
    spread: Tensor
    scores: Tensor
    last: Tensor
    last_scores: Tensor
    r_hat: Tensor
    draws: Tensor
    copies: Tensor


_BY_ROW = tuple(name for name in Imputation._fields if name != "copies")


class Sums(NamedTuple):
    """Weighted sums over the steps that are kept; the weights are divided by exp(top) so that they stay in range."""

    top: Tensor
    weight: Tensor
    squared_weight: Tensor
    mean: Tensor
    square: Tensor
    scores: Tensor


@torch.no_grad()
def impute(
    model: MaxMarginDGM,
    rows: Batch,
    how: Imputer,
    seed: int = 0,
    runtime: Runtime = PLAIN,
    on_progress: Callable[[int, int], None] = lambda _done, _of: None,
    watch: Callable[[Tensor], None] | None = None,
) -> Imputation:
    """Fill in what is not observed of the rows; the same seed gives the same answer.

    `watch` is shown the rows before the first step and after each, contrast given back.
    """
    if model.generative is None:
        raise InputError(f"recipe '{model.recipe.name}' has no generative network (bound=false): it cannot impute.")
    if model.recipe.conditional:
        raise InputError(f"recipe '{model.recipe.name}' is conditional: it is told the class, and cannot impute.")
    model.eval()
    model = _rounded(model, runtime)
    compiled = runtime.compile and how.method != "metropolis"  # which draws inside its step
    advance = torch.compile(_advance, dynamic=False) if compiled else _advance
    size = max(1, _ROWS // how.chains)
    parts = []
    for number, start in enumerate(range(0, len(rows.x), size)):
        part = rows.between(start, min(start + size, len(rows.x)))
        key = generator(rows.x.device, seed, "impute", 0 if how.common else number)
        with runtime.autocast(), drawing(key):
            whole = _fill_part(model, _padded(part, size) if compiled else part, how, advance, key, watch)
        parts.append(_first(whole, len(part.x)))
        on_progress(start + len(part.x), len(rows.x))
    return _joined(parts)


def _fill_part(
    model: MaxMarginDGM,
    part: Batch,
    how: Imputer,
    advance: Callable[..., "_Advanced"],
    key: torch.Generator,
    watch: Callable[[Tensor], None] | None,
) -> Imputation:
    """All steps of all chains for some rows."""
    raw = values(part.x)
    contrast = model.contrast(raw, part.observed)
    given = model.prepared(part).x
    observed = part.observed.expand(given.shape).contiguous()
    n, K = len(given), model.recipe.latent_size
    x_o, seen = given.repeat(how.chains, 1), observed.repeat(how.chains, 1)
    x, z = x_o if how.common else torch.where(seen, x_o, _noise(model, x_o, key)), None
    sums = _nothing(x_o, model.classifier.linear.out_features)
    chosen = _Copies(how, n, key)
    traces: list[Tensor] = []

    def in_own_units(filled: Tensor) -> Tensor:
        return torch.where(observed, raw, contrast.undo(filled))

    def show() -> None:
        if watch is not None:
            watch(in_own_units(x[:n]))

    show()
    for step in range(how.steps):
        keep = step >= how.burn_in or not how.walks
        eps = model.latents.noise((1, 1 if how.common else len(x_o), K), key).expand(1, len(x_o), K)
        before = Before(x_o, seen, x, z, eps)
        draw, sums, quantities = advance(model, how.method, before, sums, torch.tensor(float(keep), device=x.device))
        x, z = draw.x, draw.z if how.method == "metropolis" else None
        if keep:
            chosen.consider(draw)
        if keep and how.walks:
            traces.append(quantities)
        show()
    mean, variance, scores, draws = _combined(sums, how.chains)
    hatted = torch.full((n,), math.nan, device=x.device)
    if how.walks:
        hatted, draws = _mixing(torch.stack(traces), how.chains)
    whole = observed.all(-1)
    return Imputation(
        x=in_own_units(mean),
        spread=torch.where(observed, torch.zeros_like(mean), variance.sqrt() * contrast.scale),
        scores=scores,
        last=in_own_units(x[:n]),
        last_scores=model.scores(torch.where(observed, given, x[:n]), torch.ones_like(observed)),
        r_hat=hatted.masked_fill(whole, math.nan),
        draws=draws.masked_fill(whole, math.nan),
        copies=in_own_units(chosen.drawn(model, given)),
    )


class _Advanced(NamedTuple):
    """What a step gives, the sums with it, and what the diagnostics look at (see `_quantities`)."""

    draw: Draw
    sums: Sums
    quantities: Tensor


def _advance(model: MaxMarginDGM, method: Method, before: Before, sums: Sums, keep: Tensor) -> _Advanced:
    """One step, and the sums with it if it is kept (keep = 1)."""
    draw = TRANSITIONS[method](model, before)
    top = torch.maximum(sums.top, draw.log_weight)
    old, new = (sums.top - top).exp().unsqueeze(-1), keep * (draw.log_weight - top).exp().unsqueeze(-1)
    added = Sums(
        top,
        old * sums.weight + new,
        old.square() * sums.squared_weight + new.square(),
        old * sums.mean + new * draw.mean,
        old * sums.square + new * (draw.mean.square() + draw.variance),
        old * sums.scores + new * draw.scores,
    )
    return _Advanced(draw, added, _quantities(draw, before.observed))


class _Copies:
    """The z of every copy: those of steps at equal distances along the chains, or draws by their weights."""

    def __init__(self, how: Imputer, rows: int, key: torch.Generator) -> None:
        self.how, self.rows, self.key = how, rows, key
        self.z: list[Tensor] = []
        self.seen: list[tuple[Tensor, Tensor]] = []

    def consider(self, draw: Draw) -> None:
        """Keep the z of a step and its weights, one for each chain, if copies are wanted."""
        if self.how.copies:
            by_chain = draw.z[0].unflatten(0, (self.how.chains, self.rows))
            self.seen.append((by_chain, draw.log_weight.unflatten(0, (self.how.chains, self.rows))))

    def drawn(self, model: MaxMarginDGM, like: Tensor) -> Tensor:
        """(copies, rows, D): x ~ p(x | z); of grey pixels, whose noise is no part of an image, the mean."""
        m = self.how.copies
        if not m:
            return like.new_empty((0, *like.shape))
        z = torch.stack([z for z, _ in self.seen]).flatten(0, 1)  # (draws, rows, K)
        log_weight = torch.stack([weight for _, weight in self.seen]).flatten(0, 1)
        if self.how.walks:
            which = torch.linspace(0, len(z) - 1, m).round().long().unsqueeze(-1).expand(m, self.rows).to(z.device)
        else:
            which = torch.multinomial(log_weight.T.softmax(-1), m, replacement=True, generator=self.key).T
        p = generative(model)(z.gather(0, which.unsqueeze(-1).expand(-1, -1, z.shape[-1])))
        return p.mean if model.recipe.likelihood.startswith("bernoulli") and model.schema.image_shape else p.sample()


def _nothing(like: Tensor, classes: int) -> Sums:
    """No step yet."""
    one = like.new_zeros((len(like), 1))
    top = like.new_full((len(like),), -math.inf)
    return Sums(top, one, one, torch.zeros_like(like), torch.zeros_like(like), like.new_zeros((len(like), classes)))


def _combined(sums: Sums, chains: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean and variance of every entry, mean decision values, and the effective number of draws, over all chains."""
    by_chain = Sums(*(part.unflatten(0, (chains, -1)) for part in sums))
    scale = (by_chain.top - by_chain.top.amax(0)).exp().unsqueeze(-1)
    weight = (scale * by_chain.weight).sum(0)
    mean, square, scores = ((scale * s).sum(0) / weight for s in (by_chain.mean, by_chain.square, by_chain.scores))
    draws = weight.square() / (scale.square() * by_chain.squared_weight).sum(0)
    return mean, (square - mean.square()).clamp(min=0), scores, draws.squeeze(-1)


def _quantities(draw: Draw, observed: Tensor) -> Tensor:
    """What the diagnostics look at, (2, rows): log p(x_o | z), and the mean of what was filled in."""
    missing = ~observed
    return torch.stack([draw.log_density, (draw.mean * missing).sum(-1) / missing.sum(-1).clamp(min=1)])


def _mixing(traces: Tensor, chains: int) -> tuple[Tensor, Tensor]:
    """R-hat and effective sample size of every row, the worse of the two quantities; NaN for too few steps."""
    steps = len(traces)
    if steps < LEAST_STEPS:
        nothing = torch.full((traces.shape[-1] // chains,), math.nan, device=traces.device)
        return nothing, nothing.clone()
    by_chain = traces.unflatten(-1, (chains, -1)).permute(2, 0, 1, 3)  # (chains, steps, quantities, rows)
    return r_hat(by_chain).amax(0).float(), effective_sample_size(by_chain).amin(0).float()


def _noise(model: MaxMarginDGM, like: Tensor, key: torch.Generator) -> Tensor:
    """Where a chain starts: uniform over the range of pixels, columns and categories, or normal where there is none."""
    uniform = torch.rand(like.shape, generator=key, device=key.device)
    normal = torch.randn(like.shape, generator=key, device=key.device)
    if model.schema.image_shape is not None:
        return uniform if model.recipe.transform == "none" else normal
    ends = np.cumsum([column.width for column in model.schema.columns])
    parts = [
        {"binary": uniform}.get(column.kind, normal)[:, end - column.width : end]
        for column, end in zip(model.schema.columns, ends, strict=True)
    ]
    kinds = [column.kind for column in model.schema.columns]
    return torch.cat([p.softmax(-1) if k == "categorical" else p for p, k in zip(parts, kinds, strict=True)], dim=1)


def _rounded(model: MaxMarginDGM, runtime: Runtime) -> MaxMarginDGM:
    """The model with matrices in the precision of the products, to which autocast would round them at every step."""
    if runtime.precision == "float32":
        return model
    made = copy.deepcopy(model)
    for part in made.modules():
        if isinstance(part, torch.nn.Linear):
            part.weight.data = part.weight.data.bfloat16()
    return made


def _padded(part: Batch, size: int) -> Batch:
    """The last part filled up with its last row: the compiled step has one shape."""
    index = torch.arange(size, device=part.x.device).clamp(max=len(part.x) - 1)
    return part.rows(index)


def _first(made: Imputation, count: int) -> Imputation:
    """Without what `_padded` added."""
    return made._replace(**{name: getattr(made, name)[:count] for name in _BY_ROW}, copies=made.copies[:, :count])


def _joined(parts: list[Imputation]) -> Imputation:
    by_row = {name: torch.cat([getattr(part, name) for part in parts]) for name in _BY_ROW}
    return Imputation(**by_row, copies=torch.cat([part.copies for part in parts], dim=1))

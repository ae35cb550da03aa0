"""How fast holes are filled in, as a share of the machine's ceiling and beside a plain chain, within one run.

The plain chain is algorithm and arithmetic alone: float32, not compiled, all rows at once.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mmdgm.bench import Convolution, Product, made_up, rate
from mmdgm.data.batches import Batch, resident, values
from mmdgm.errors import InputError
from mmdgm.imputation import Imputer, impute
from mmdgm.model import MaxMarginDGM, initialised
from mmdgm.operations import count_layers
from mmdgm.recipes import recipe_named
from mmdgm.runtime import choose_runtime, keep_freed_memory, machine, versions

_ROUNDS = 3
_PLAIN_STEPS = 5
"""Its steps are all alike, and slow."""


def bench_imputation(
    name: str, rows: int, steps: int, device: str | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """Seconds that one chain needs for all rows, and the operations a second of its networks."""
    recipe = recipe_named(name)
    if not recipe.bound or recipe.conditional or recipe.likelihood == "columns":
        raise InputError(f"bench impute needs a recipe for images that has a generative network; got '{name}'.")
    keep_freed_memory()
    runtime = choose_runtime(device, compile=True)
    data = made_up(recipe, rows)
    model = initialised(recipe, data.schema, len(data.classes), 0).to(runtime.torch_device)
    whole = resident(data, runtime.torch_device)
    half = torch.arange(data.schema.width, device=whole.x.device) < data.schema.width // 2
    observed = half.expand(whole.observed.shape)
    holed = Batch(values(whole.x) * observed, observed, whole.y)
    how = Imputer("chain", steps=steps, burn_in=steps // 5, chains=1)
    layers = count_layers(model)
    done, nominal = (
        sum(getattr(x, kind) / (4 if x.first else 6) * 2 for x in layers) for kind in ("operations", "nominal")
    )
    ceiling = Convolution(runtime) if recipe.convolutions else Product(runtime)
    say("compiling and warming up")
    impute(model, holed.between(0, min(rows, 1000)), Imputer("chain", steps=2, burn_in=0, chains=1), 0, runtime)
    seconds: dict[str, list[float]] = {"ours": [], "plain": []}
    ceilings: list[float] = []
    for number in range(_ROUNDS):
        say(f"round {number + 1} of {_ROUNDS}")
        ceilings.append(rate(ceiling, 2.0, runtime))
        seconds["ours"].append(_timed(lambda: impute(model, holed, how, 0, runtime).x))
        seconds["plain"].append(_timed(lambda: _plain_chain(model, holed, _PLAIN_STEPS)) * steps / _PLAIN_STEPS)
    ours, plain, most = (statistics.median(x) for x in (seconds["ours"], seconds["plain"], ceilings))
    achieved = nominal * rows * steps / ours
    kind = "3x3_convolution" if recipe.convolutions else "matrix_product"
    return {
        "recipe": recipe.name,
        "rows": rows,
        "steps": steps,
        "device": runtime.device,
        "precision": runtime.precision,
        "seconds": ours,
        "plain_seconds": plain,
        "times_the_plain_chain": plain / ours,
        "operations_per_row_and_step": nominal,
        "gflops_achieved": achieved / 1e9,
        f"gflops_of_a_{kind}": most / 1e9,
        f"share_of_the_{kind}_percent": 100 * achieved / most,
        f"share_of_the_{kind}_percent_without_zeros": 100 * achieved / most * done / nominal,
        "versions": versions(),
        "machine": machine(runtime.device),
    }


def _timed(work: Callable[[], Tensor]) -> float:
    began = time.perf_counter()
    work()[0, 0].item()  # waits for the device
    return time.perf_counter() - began


@torch.no_grad()
def _plain_chain(model: MaxMarginDGM, rows: Batch, steps: int) -> Tensor:
    """What one writes first: the paper's chain and its average."""
    assert model.generative is not None
    x = torch.where(rows.observed, rows.x, torch.rand_like(rows.x))
    total, everything = torch.zeros_like(x), torch.ones_like(rows.observed)
    scores: Tensor | float = 0.0
    for _ in range(steps):
        recognised = model.recognition(x, everything)
        p = model.generative(recognised.q.sample().unsqueeze(0))
        x = torch.where(rows.observed, rows.x, p.mean[0])
        total, scores = total + x, scores + model.classifier(model.features(recognised))
    return total / steps

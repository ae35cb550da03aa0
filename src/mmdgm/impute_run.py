"""Filling in with a finished run: holes cut into known rows, to measure; or the holes of a user's own file."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mmdgm import plots
from mmdgm.api import load_run, provenance, rows_to_look_at, run_splits
from mmdgm.data.batches import Batch, encoded_mask, resident, values
from mmdgm.data.dataset import Dataset
from mmdgm.data.files import load_file
from mmdgm.data.fill_file import check_formats, fill
from mmdgm.data.missing import Pattern, fitted_mask, load_mask
from mmdgm.data.splits import SplitName
from mmdgm.errors import InputError
from mmdgm.evaluation_holes import HoleFigures, evaluate_with_holes
from mmdgm.filling import Filled
from mmdgm.imputation import Imputation, Imputer, impute
from mmdgm.operations import count_layers
from mmdgm.other_imputers import compare
from mmdgm.runtime import Runtime, choose_runtime
from mmdgm.storage import check_target, write_atomically
from mmdgm.trained import Trained

_SHOWN = 10
"""Rows in the pictures."""
_FILM_STEPS = (0, 1, 2, 4, 8, 16, 32, 64)


def evaluate_holes(
    path: Path | str,
    pattern: Pattern,
    part: SplitName | None = None,
    data: str | None = None,
    label: str | None = None,
    seed: int = 0,
    pictures: Path | None = None,
    compared: int = 0,
    runtime: Callable[[float], Runtime] = lambda operations: choose_runtime(operations=operations),
    on_progress: Callable[[int, int], None] = lambda _done, _of: None,
    **how: Any,
) -> dict[str, Any]:
    """Error and mean squared error of a run with holes, with all that they rest on; pictures into a folder, if named.

    The first `compared` rows are filled in by scikit-learn's imputers, too. `how` are settings of the `Imputer`;
    `runtime` is chosen by the number of operations.
    """
    began = time.monotonic()
    trained = load_run(path)
    if pictures is not None or compared:
        _need_a_generative_network(trained)
    rows, name = rows_to_look_at(trained, part, data, label)
    assert trained.folder is not None
    train = run_splits(trained.folder).train
    means = _means(trained, train)
    known = resident(trained.aligned(rows), torch.device("cpu"))
    mask = torch.from_numpy(encoded_mask(pattern.mask(len(rows), trained.schema, seed), trained.schema))
    imputer = Imputer.for_model(trained.model, **how)
    chosen = runtime(_operations(trained, len(rows), imputer))
    device = chosen.torch_device
    trained.model.to(device)
    moved = Batch(*(column.to(device) for column in known))
    found, filled = evaluate_with_holes(
        trained.model, moved, mask.to(device), pattern.text, means, imputer, seed, chosen, name, on_progress
    )
    drawn = []
    if pictures is not None and filled is not None:
        drawn = _draw(trained, moved, mask.to(device), filled, found, imputer, seed, pictures)
    told = provenance(trained, rows if data is not None else None, began)
    told["pictures"] = [str(picture) for picture in drawn]
    if compared and filled is not None:
        few = slice(0, compared)
        hidden = (mask | ~known.observed)[few].numpy()
        told["compared"] = compare(_numbers(train), _numbers(rows.take(few)), hidden, filled.x[few].cpu().numpy(), seed)
    return {**found.to_json(), **told}


def fill_from_file(
    path: Path | str,
    source: Path,
    target: Path,
    mask: Path | None = None,
    label: str | None = None,
    seed: int = 0,
    runtime: Callable[[float], Runtime] = lambda operations: choose_runtime(operations=operations),
    on_progress: Callable[[int, int], None] = lambda _done, _of: None,
    **how: Any,
) -> tuple[Filled, list[Path]]:
    """Fill the holes of a user's file into another, of the same format; copies are numbered, -1, -2 ...

    What is observed, and all that is not the model's (labels, other arrays), comes back as it stood.
    """
    check_formats(source, target)
    if not source.exists():
        raise InputError(f"--input: the file '{source}' does not exist.")
    trained = load_run(path)
    _need_a_generative_network(trained)
    assert trained.folder is not None
    rows = load_file(source, label, usual=trained.folder.description["data"]["label"])
    aligned = trained.aligned(replace(rows, classes=(), y=np.full(len(rows), -1)))
    x = _as_stored(source, aligned)
    holes = None if mask is None else fitted_mask(load_mask(mask), len(rows), trained.schema, "--mask")
    if holes is not None and source.suffix.lower() != ".npz":
        raise InputError(f"--mask is for arrays; mark the holes of the table '{source.name}' as empty cells.")
    imputer = Imputer.for_model(trained.model, **how)
    numbered = [target.with_stem(f"{target.stem}-{i + 1}") for i in range(imputer.copies)]
    for place in (target, *numbered):
        check_target(place, "--out")
    chosen = runtime(_operations(trained, len(rows), imputer))
    trained.model.to(chosen.torch_device)
    found = trained.impute(x, holes, seed, chosen, on_progress, **how)
    contents = [fill(source, trained.schema, filled) for filled in (found.x, *found.copies)]
    for place, content in zip((target, *numbered), contents, strict=True):
        write_atomically(place, content)
    return found, [target, *numbered]


def _need_a_generative_network(trained: Trained) -> None:
    if trained.model.generative is None:
        raise InputError(f"recipe '{trained.recipe.name}' has no generative network (bound=false): it cannot impute.")


def _as_stored(source: Path, rows: Dataset) -> Any:
    """The values as the file has them: an array's own type and shape, a table's as columns of numbers."""
    if source.suffix.lower() != ".npz":
        return rows.x
    with np.load(source, allow_pickle=False) as stored:
        return stored["x"]


def _operations(trained: Trained, rows: int, how: Imputer) -> float:
    """About how many operations it takes: a third of a training step's for each row, step and chain."""
    of_a_row = sum(layer.operations for layer in count_layers(trained.model)) / 3
    trained.model.eval()
    return of_a_row * rows * how.chains * how.steps


def _means(trained: Trained, train: Dataset) -> torch.Tensor:
    """The mean of every value that the networks see, over the training rows where it is observed."""
    total = torch.zeros(trained.schema.width).double()
    count = total.clone()
    for start in range(0, len(train), 5000):
        rows = resident(train.take(slice(start, start + 5000)), torch.device("cpu"))
        total += (values(rows.x) * rows.observed).double().sum(0)
        count += rows.observed.double().sum(0)
    return total / count.clamp(min=1)


def _numbers(rows: Dataset) -> NDArray[np.float32]:
    """Rows as the networks see them, NaN where they are not observed."""
    batch = resident(rows, torch.device("cpu"))
    numbers: NDArray[np.float32] = torch.where(batch.observed, values(batch.x), torch.nan).numpy()
    return numbers


def _draw(
    trained: Trained,
    rows: Batch,
    mask: torch.Tensor,
    filled: Imputation,
    found: HoleFigures,
    how: Imputer,
    seed: int,
    folder: Path,
) -> list[Path]:
    """A film strip and its animation for images, histograms for a table."""
    name = f"imputed-{''.join(c if c.isalnum() else '-' for c in found.pattern)}"
    title = f"{trained.recipe.name}, {found.pattern}, {how.method}: mean squared error {found.mse or 0:.4f}"
    if trained.schema.image_shape is None:
        truth = trained.schema.decode(values(rows.x).cpu().numpy())
        guess = trained.schema.decode(filled.x.float().cpu().numpy())
        first = np.cumsum([0, *(column.width for column in trained.schema.columns)])[:-1]
        content = plots.histograms(trained.schema.columns, truth, guess, mask.cpu().numpy()[:, first], title)
        write_atomically(folder / f"{name}.png", content)
        return [folder / f"{name}.png"]
    strip = film(trained, rows, mask, how, seed)
    write_atomically(folder / f"{name}.png", plots.film_strip(strip.columns, strip.labels, title))
    write_atomically(folder / f"{name}.gif", plots.animation(strip.frames))
    return [folder / f"{name}.png", folder / f"{name}.gif"]


class Film(NamedTuple):
    """The first rows while their holes are filled in: every step as a frame, and some of them as labelled columns."""

    columns: list[NDArray[np.float32]]
    labels: list[str]
    frames: list[NDArray[np.float32]]


def film(trained: Trained, rows: Batch, mask: torch.Tensor, how: Imputer, seed: int) -> Film:
    """One chain on the first rows, with the holes where `mask` is true."""
    few = rows.between(0, _SHOWN)
    observed = few.observed & ~mask[:_SHOWN]
    holed = Batch(values(few.x) * observed, observed, few.y)
    shape = (-1, *(trained.schema.image_shape or ()))
    frames: list[NDArray[np.float32]] = []
    steps = replace(how, chains=1, copies=0)
    average = impute(
        trained.model, holed, steps, seed, watch=lambda x: frames.append(x.float().cpu().numpy().reshape(shape))
    ).x
    truth, hole = (x.float().cpu().numpy().reshape(shape) for x in (values(few.x), torch.where(observed, holed.x, 0.5)))
    shown = [step for step in _FILM_STEPS if step < len(frames)]
    columns = [truth, hole, *(frames[step] for step in shown), average.float().cpu().numpy().reshape(shape)]
    labels = ["truth", "hole", *(f"step {step}" if step else "start" for step in shown), "estimate"]
    return Film(columns, labels, frames)

"""What each of the paper's tables and figures shows as a picture, PNG and SVG, and the figures behind it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mmdgm.api import load_run, run_splits
from mmdgm.data.batches import encoded_mask, resident
from mmdgm.data.missing import parse_pattern
from mmdgm.experiments import pictures
from mmdgm.experiments.jobs import JOBS, Size, Target
from mmdgm.experiments.paper import BOUND, ERROR, MSE, HoleTable, Table
from mmdgm.experiments.pictures import Series
from mmdgm.experiments.results import Row, read
from mmdgm.imputation import Imputer
from mmdgm.impute_run import film
from mmdgm.plots import Kind, film_strip, shown
from mmdgm.storage import to_bytes, write_atomically

Paths = dict[tuple[str, int], Path]
_KINDS: tuple[Kind, ...] = ("png", "svg")
_TITLES = {ERROR: "error, %", BOUND: "bound, nats", MSE: "mean squared error"}
_PATTERNS = ("rect:12", "drop:0.8", "half:left")


def draw(target: Target, paths: Paths, seed: int, size: Size, out: Path) -> Iterator[Path]:
    """The files of a target's picture; models of one seed are shown, the tables' figures are of all results."""
    folder = out / "figures"
    if target.table is not None:
        yield from _written(folder, target.name, _of_table(target.table, read(out / "results")))
    elif target.name.startswith("samples"):
        yield from _written(folder, target.name, _samples(target, paths, seed))
    elif target.name == "tsne":
        made, figures = tsne(target, paths, seed, size.points)
        yield from _written(folder, target.name, made)
        write_atomically(folder / "tsne.json", to_bytes(figures))
        yield folder / "tsne.json"
    else:
        for pattern in _PATTERNS:
            name = f"{target.name}-{pattern.replace(':', '-')}"
            yield from _written(folder, name, _film(target, paths, seed, pattern, size.imputer(JOBS[target.jobs[0]])))


def _written(folder: Path, name: str, made: Callable[[Kind], bytes]) -> Iterator[Path]:
    for kind in _KINDS:
        path = folder / f"{name}.{kind}"
        write_atomically(path, made(kind))
        yield path


def _of_table(table: Table | HoleTable, rows: list[Row]) -> Callable[[Kind], bytes]:
    title = f"Table {table.number}: {table.title}"
    if isinstance(table, HoleTable):
        own = {(row.recipe, row.pattern): row for row in rows}
        series = [Series(f"the paper's {c}", [f[i] for f in table.rows.values()]) for i, c in enumerate(table.columns)]
        for name in table.recipes:
            there = [own.get((name, pattern)) for pattern in table.rows]
            if any(there):
                series.append(_series(name, there, table.key))
        return lambda kind: pictures.beside(list(table.rows), {_TITLES[table.key]: series}, title, kind)
    whole = {row.recipe: row for row in rows if row.pattern is None}
    lines = [(line, name) for line in table.lines for name in line.recipes or ("",)]
    panels: dict[str, list[Series]] = {}
    for key in (ERROR, BOUND):
        if any(key in line.figures for line in table.lines):
            paper = Series("the paper", [line.figures.get(key) for line, _ in lines])
            panels[_TITLES[key]] = [paper, _series("ours", [whole.get(name) for _, name in lines], key)]
    return lambda kind: pictures.beside([name or line.model for line, name in lines], panels, title, kind)


def _series(name: str, rows: list[Row | None], key: str) -> Series:
    means = [None if row is None else row.mean(key) for row in rows]
    return Series(name, means, [0.0 if row is None else row.spread(key) for row in rows])


def _samples(target: Target, paths: Paths, seed: int) -> Callable[[Kind], bytes]:
    grids, note = [], ""
    for name in target.jobs:
        trained = load_run(paths[name, seed])
        images, note = shown(trained.sample(64, seed=0), trained.recipe.transform)
        grids.append(images)
    caption = f"means of p(x | z), z from the prior, seed {seed}{note}"
    return lambda kind: pictures.side_by_side(grids, target.jobs, caption, kind)


def tsne(target: Target, paths: Paths, seed: int, points: int) -> tuple[Callable[[Kind], bytes], dict[str, Any]]:
    """The same test rows through every model's features, and what the eye sees as figures.

    Neighbours: how often a point's nearest neighbour in the plane has another class. Silhouette: of the classes in the
    plane, from -1 to 1.
    """
    from sklearn.manifold import TSNE
    from sklearn.metrics import silhouette_score

    planes, titles, figures = [], [], []
    y: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
    for name in target.jobs:
        trained = load_run(paths[name, seed])
        assert trained.folder is not None
        test = run_splits(trained.folder).test.take(slice(0, points))
        y = test.y
        features = trained.transform(test.x)
        plane = TSNE(random_state=0, init="pca", perplexity=min(30, len(test) / 4)).fit_transform(features)
        error, silhouette = 100 * _neighbour_error(plane, y), float(silhouette_score(plane, y))
        planes.append(plane)
        titles.append(f"{name}: {error:.1f} % of nearest neighbours\nof another class, silhouette {silhouette:.2f}")
        told = {"recipe": name, "seed": seed, "points": len(test), "weights_sha256": trained.folder.weights_sha256}
        figures.append({**told, "neighbour_error_percent": error, "silhouette": silhouette})
    return lambda kind: pictures.maps(planes, y, titles, kind), {"protocol": "t-SNE, scikit-learn", "models": figures}


def _neighbour_error(plane: NDArray[np.float32], y: NDArray[np.int64]) -> float:
    from sklearn.neighbors import NearestNeighbors

    nearest = NearestNeighbors(n_neighbors=1).fit(plane).kneighbors(return_distance=False)[:, 0]
    return float((y[nearest] != y).mean())


def _film(target: Target, paths: Paths, seed: int, pattern: str, how: dict[str, Any]) -> Callable[[Kind], bytes]:
    trained = load_run(paths[target.jobs[0], seed])
    assert trained.folder is not None
    few = run_splits(trained.folder).test.take(slice(0, 10))
    mask = parse_pattern(pattern).mask(len(few), trained.schema, seed)
    rows = resident(trained.aligned(few), trained.device)
    holes = torch.from_numpy(encoded_mask(mask, trained.schema))
    strip = film(trained, rows, holes, Imputer.for_model(trained.model, **how), seed)
    title = f"{target.jobs[0]}, seed {seed}, {pattern}"
    return lambda kind: film_strip(strip.columns, strip.labels, title, kind)

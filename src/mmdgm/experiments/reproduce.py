"""The paper's tables and figures: train what is not trained yet, look at the test rows once, write what came of it.

A finished run of the same recipe, seed and data is used as it is; one that was stopped goes on. Every result is
written as soon as it is there, so that an interrupt loses nothing.
"""

import io
import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mmdgm import api
from mmdgm.bench import Product, rate
from mmdgm.data.dataset import Dataset
from mmdgm.data.missing import parse_pattern
from mmdgm.data.sources import load
from mmdgm.data.splits import split
from mmdgm.errors import InputError, unknown
from mmdgm.experiments.figures import draw
from mmdgm.experiments.jobs import JOBS, TARGETS, Job, Size, Target, in_order
from mmdgm.experiments.results import of_a_table, read
from mmdgm.impute_run import evaluate_holes
from mmdgm.progress import ProgressBar
from mmdgm.recipes import Recipe
from mmdgm.runs import RunFolder
from mmdgm.runtime import Runtime, choose_runtime
from mmdgm.storage import to_bytes, write_atomically
from mmdgm.training import operations

_SHARE_OF_PRODUCTS = 0.35
"""What training reaches of a machine's rate of matrix products, about."""


class Plan(NamedTuple):
    """What there is to do; `minutes` are of training alone, for runs that were not begun."""

    target: str
    about: str
    models: int
    seeds: tuple[int, ...]
    runs_to_train: int
    minutes: float

    def in_words(self) -> str:
        """In a line or two."""
        seeds = ", ".join(map(str, self.seeds))
        told = f"{self.target}: {self.about}. {self.models} models, seeds {seeds}; "
        if not self.runs_to_train:
            return told + "all are trained, what is left is to look at them"
        runs = self.models * len(self.seeds)
        told += f"{self.runs_to_train} of {runs} runs are to be trained, about {self.minutes:.0f} minutes"
        return told + "; to look at them comes on top"


class Interrupted(Exception):  # noqa: N818 - nothing is wrong
    """The user asked to stop; what was done is kept."""


@dataclass
class Reproduction:
    """Does jobs for some seeds: runs into one folder, results, tables and figures into another.

    `only` names models of the target. A figure of models is not drawn then, one of a table shows all results there are.
    """

    out: Path
    runs: Path
    seeds: tuple[int, ...]
    size: Size
    say: Callable[[str], None]
    watch: Callable[[str], ProgressBar]
    should_stop: Callable[[], bool] = lambda: False
    compile: bool | None = None
    only: tuple[str, ...] = ()
    _data: dict[str, tuple[str, Dataset]] = field(default_factory=dict)

    def target(self, name: str) -> dict[str, Any]:
        """One table or figure, from its plan to its files."""
        target = TARGETS[name]
        self.plan(name)
        self._stop_if_asked()
        jobs = in_order(self._models(target))
        paths = {(job.name, seed): self._done(job, seed) for seed in self.seeds for job in jobs}
        if target.table is not None:
            for (job_name, seed), path in paths.items():
                self._look(JOBS[job_name], seed, path, target)
        files = list(self._write_table(target))
        self._stop_if_asked()
        if target.table is not None or not self.only:
            for file in draw(target, paths, self.seeds[0], self.size, self.out):
                files.append(file)
                self._stop_if_asked()
        return {"target": name, "runs": [str(p) for p in paths.values()], "files": [str(f) for f in files]}

    def _models(self, target: Target) -> tuple[str, ...]:
        """Those of the target that are asked for."""
        for name in self.only:
            if name not in target.jobs:
                raise unknown(f"model of {target.name}", name, target.jobs)
        return self.only or target.jobs

    def _stop_if_asked(self) -> None:
        if self.should_stop():
            raise Interrupted

    @property
    def _results(self) -> Path:
        return self.out / "results"

    def plan(self, name: str) -> Plan:
        """What there is to do for a target, and about how long it takes here."""
        target, left, waiting = TARGETS[name], 0.0, 0
        jobs = in_order(self._models(target))
        for job, seed in itertools.product(jobs, self.seeds):
            found = self._find(job, seed)
            if found is not None and found.result is not None:
                continue
            waiting += 1
            if not job.reads:  # the others are small beside these
                recipe = self.size.recipe(job)
                left += operations(recipe, split(self._rows(job.data)[1], recipe.split, seed))
        minutes = left / (_SHARE_OF_PRODUCTS * _products_a_second()) / 60 if left else 0.0
        plan = Plan(name, target.about, len(jobs), self.seeds, waiting, minutes)
        self.say(plan.in_words())
        return plan

    def _rows(self, name: str) -> tuple[str, Dataset]:
        """Data by what finds them again (a name or a file), and the rows; small ones are written to a file first."""
        if name not in self._data:
            found = load(name, say=self.say)
            if self.size.rows is not None:
                name_of_file = str(_write_few(found, self.size.rows, self.runs / f"{name}-few.npz"))
                self._data[name] = (name_of_file, load(name_of_file))
            else:
                self._data[name] = (name, found)
        return self._data[name]

    def _read_by(self, job: Job, seed: int) -> tuple[str, Dataset]:
        """What a job is trained on: data with a name, or what another model says of them."""
        if job.reads is None:
            return self._rows(job.data)
        source, what = job.reads
        run = self._find(JOBS[source], seed)
        assert run is not None
        assert run.weights_sha256 is not None
        path = self.runs / f"{source}-seed-{seed}-{what}-{run.weights_sha256[:12]}.npz"
        if not path.exists():
            self.say(f"writing the {what} of {source}, seed {seed}")
            write_atomically(path, api.embed_run(run.path, what)[0])
        name = str(path)
        if name not in self._data:  # it is large, and asked for whenever its run is looked for
            self._data[name] = name, load(name)
        return self._data[name]

    def _find(self, job: Job, seed: int) -> RunFolder | None:
        """A run of the same recipe, seed and data, a finished one before a stopped one; nothing if there is none."""
        recipe = self.size.recipe(job).to_json()
        origin = None
        if job.starts_from:
            start = self._find(JOBS[job.starts_from], seed)
            if start is None:
                return None
            origin = start.weights_sha256
        wanted = [json.loads(json.dumps(recipe)), seed, None if job.reads else self._rows(job.data)[1].sha256, origin]
        if job.reads:
            source = self._find(JOBS[job.reads[0]], seed)
            if source is None or source.result is None:
                return None
            wanted[2] = self._read_by(job, seed)[1].sha256
        found = [RunFolder.open(path) for path in _runs_told(self.runs, wanted)]
        return next((folder for folder in found if folder.result is not None), found[0] if found else None)

    def _done(self, job: Job, seed: int) -> Path:
        """The folder of the finished run, trained or resumed if need be."""
        run = self._find(job, seed)
        if run is not None and run.result is not None:
            return run.path
        with self.watch(f"{job.name}, seed {seed}") as bar:
            hooks: dict[str, Any] = {"on_progress": bar, "should_stop": self.should_stop}
            path = self._train(job, seed, hooks) if run is None else run.path
            if run is not None and api.resume(path, **hooks) is None:
                raise Interrupted
        return path

    def _train(self, job: Job, seed: int, hooks: dict[str, Any]) -> Path:
        """Train from the beginning, into a new folder."""
        recipe, path = self.size.recipe(job), self._free_folder(f"{job.name}-seed-{seed}")
        source, rows = self._read_by(job, seed)
        start = self._find(JOBS[job.starts_from], seed) if job.starts_from else None
        runtime = self._runtime(operations(recipe, split(rows, recipe.split, seed)))
        if api.train(recipe, source, seed, path, runtime, init_from=start.path if start else None, **hooks) is None:
            raise Interrupted
        return path

    def _runtime(self, count: float) -> Runtime:
        return choose_runtime(compile=self.compile, operations=count)

    def _free_folder(self, name: str) -> Path:
        number = 1
        while (path := self.runs / (name if number == 1 else f"{name}-{number}")).exists():
            number += 1
        return path

    def _look(self, job: Job, seed: int, path: Path, target: Target) -> None:
        """Look at the test rows, once for these weights, and write what was seen."""
        if target.patterns and job.name in target.jobs:
            for pattern in target.patterns:
                name = f"{job.name}-seed-{seed}-{pattern.replace(':', '-')}.json"
                self._write_result(name, path, job, partial(self._with_holes, path, pattern, job))
        elif not target.patterns:
            K = self.size.likelihood(job.recipe) if job.recipe.bound else 0
            name = f"{job.name}-seed-{seed}.json"
            self._write_result(name, path, job, partial(self._whole, path, K))

    def _whole(self, path: Path, K: int) -> dict[str, Any]:
        return api.evaluate_run(path, "test", device=self._runtime(0.0).device, importance_samples=K)

    def _with_holes(self, path: Path, pattern: str, job: Job) -> dict[str, Any]:
        with self.watch(f"{path.name}, {pattern}") as bar:

            def show(done: int, of: int) -> None:
                bar.rows(done, of)
                self._stop_if_asked()

            hooks: dict[str, Any] = {"runtime": self._runtime, "on_progress": show}
            few = min(job.compared, self.size.points)
            return evaluate_holes(path, parse_pattern(pattern), "test", compared=few, **hooks, **self.size.imputer(job))

    def _write_result(self, name: str, path: Path, job: Job, look: Callable[[], dict[str, Any]]) -> None:
        self._stop_if_asked()
        weights, file = RunFolder.open(path).weights_sha256, self._results / name
        before = _json(file)
        if before.get("weights_sha256") == weights:
            return
        if file.exists():
            self.say(f"{file} is of other weights, and will be replaced")
        began = time.monotonic()
        found = look()
        if job.reads:  # the file of features is this machine's own
            found |= {"data": job.data, "reads": {"run": job.reads[0], "what": job.reads[1]}}
        write_atomically(file, to_bytes(found))
        figures = {key: found.get(key) for key in ("error_percent", "bound_nats", "mse") if found.get(key) is not None}
        told = ", ".join(f"{key} {value:.4g}" for key, value in figures.items())
        self.say(f"{file} ({time.monotonic() - began:.0f} s): {told}")

    def _write_table(self, target: Target) -> Iterator[Path]:
        if target.table is None:
            return
        path = self.out / "tables" / f"{target.name}.md"
        write_atomically(path, of_a_table(target.table, read(self._results)).encode())
        yield path


def _runs_told(runs: Path, wanted: list[Any]) -> Iterator[Path]:
    """The run folders with that recipe, seed, hash of the data, and origin."""
    for path in sorted(runs.glob("*/run.json")):
        told = _json(path)
        parts = [part if isinstance(part, dict) else {} for part in (told.get("data"), told.get("init_from"))]
        hashes = [parts[0].get("sha256"), parts[1].get("weights_sha256")]
        same = [_recipe_told(told), told.get("seed"), *hashes] == wanted
        if same and (path.parent / "manifest.json").is_file():  # which is written last: without it no run was begun
            yield path.parent


def _recipe_told(told: dict[str, Any]) -> Any:
    """The recipe of a run as this version writes it: what a run of an earlier one does not name has its default."""
    try:
        return json.loads(json.dumps(Recipe.from_json(told["recipe"]).to_json()))
    except (InputError, KeyError, TypeError, AttributeError):
        return None


def _json(path: Path) -> dict[str, Any]:
    """What a JSON file of ours holds; nothing if there is none, or if it is something else."""
    try:
        told = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _write_few(rows: Dataset, count: int, path: Path) -> Path:
    """The first rows of the training part and of the test part, as a file."""
    if path.exists():
        return path
    test = len(rows) - rows.official_test
    chosen = np.r_[:count, test : test + count // 3]
    valid = count // 6 if rows.official_valid else 0
    content = io.BytesIO()
    names = np.array(rows.classes)[rows.y[chosen]]
    np.savez(content, x=rows.x[chosen], y=names, official_test=count // 3, official_valid=valid)
    write_atomically(path, content.getvalue())
    return path


def _products_a_second() -> float:
    """This machine's matrix rate, from half a second of products."""
    runtime = choose_runtime()
    return rate(Product(runtime), 0.5, runtime)

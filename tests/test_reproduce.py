"""Every table and figure of the paper, small: the whole way from data to JSON, table and picture."""

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mmdgm.data.dataset import Dataset, Schema
from mmdgm.errors import InputError
from mmdgm.experiments import reproduce
from mmdgm.experiments.jobs import JOBS, QUICK, TARGETS, Job, in_order
from mmdgm.experiments.paper import HoleTable
from mmdgm.experiments.reproduce import Interrupted, Reproduction
from mmdgm.experiments.results import Row, read
from mmdgm.progress import ProgressBar
from mmdgm.recipes import RECIPES

TINY = dataclasses.replace(QUICK, rows=60, points=20, steps=2)


def made_up(name: str, say: object = None) -> Dataset:
    """Digits of made-up ink in the place of MNIST and SVHN; a file is read as it is."""
    from mmdgm.data import sources

    if name.endswith(".npz"):
        return sources.load(name)
    rng = np.random.default_rng(0)
    shape = (32, 32, 3) if name == "svhn" else (28, 28)
    y = np.arange(120) % 10
    x = rng.integers(0, 200, (120, *shape), dtype=np.uint8)
    x[np.arange(120), 2 * y] += 55
    return Dataset(name, x, y, tuple("0123456789"), Schema(image_shape=shape), 30, 20)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared by the targets, which share models."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reproduction:
    monkeypatch.setattr(reproduce, "load", made_up)
    monkeypatch.setattr(reproduce, "_products_a_second", lambda: 1e11)
    quiet = lambda title: ProgressBar(title, quiet=True)  # noqa: E731
    return Reproduction(tmp_path, tmp_path / "runs", (0,), TINY, lambda _: None, quiet, compile=False)


@pytest.mark.parametrize("name", ["table1", "table4", "table5", "samples-mnist", "tsne", "imputation-svhn"])
def test_a_target_from_data_to_its_files(work: Reproduction, runs: Path, name: str) -> None:
    done = dataclasses.replace(work, runs=runs).target(name)
    target = TARGETS[name]
    files = [Path(file) for file in done["files"]]
    assert {"png", "svg"} <= {file.suffix[1:] for file in files}
    assert all(file.stat().st_size > 100 for file in files)
    results = [json.loads(path.read_text()) for path in (work.out / "results").glob("*.json")]
    if target.table is None:
        assert not results
        return
    jobs = target.jobs if target.patterns else tuple(job.name for job in in_order(target.jobs))
    assert {one["recipe"] for one in results} == set(jobs)
    wanted = {"pattern", "mse", "error_percent"} if target.patterns else {"error_percent", "bound_nats", "protocol"}
    for one in results:
        assert wanted | {"recipe", "seed", "data_sha256", "versions", "machine", "training_seconds"} <= set(one)
        assert one["data"] == JOBS[one["recipe"]].data or one["data"].endswith("-few.npz")
        method = JOBS[one["recipe"]].filled_by
        assert method is None or not target.patterns or one["protocol"]["method"] == method
    table = (work.out / "tables" / f"{name}.md").read_text()
    if isinstance(target.table, HoleTable):
        assert all(f"`{pattern}`" in table for pattern in target.table.rows)
    else:
        assert table.count("better") + table.count("worse") + table.count("equal") >= len(target.jobs)


def test_what_is_done_is_not_done_again(work: Reproduction, monkeypatch: pytest.MonkeyPatch) -> None:
    assert work.plan("samples-svhn").runs_to_train == 2
    work.target("samples-svhn")
    assert work.plan("samples-svhn").in_words().endswith("all are trained, what is left is to look at them")
    before = {path: path.stat().st_mtime_ns for path in work.runs.rglob("*")}
    monkeypatch.setattr("mmdgm.experiments.reproduce.api.train", None)
    work.target("samples-svhn")
    assert {path: path.stat().st_mtime_ns for path in work.runs.rglob("*")} == before


def test_one_model_of_a_target_alone(work: Reproduction) -> None:
    alone = dataclasses.replace(work, only=("va-pegasos-mnist",))
    assert alone.plan("table1").models == 2  # and the model that it reads
    files = alone.target("table1")["files"]
    assert [Path(file).name for file in files] == ["table1.md", "table1.png", "table1.svg"]
    assert {row.recipe for row in read(work.out / "results")} == {"va-pegasos-mnist", "va-mnist"}
    with pytest.raises(InputError, match="unknown model of table1 'cva-svhn'"):
        dataclasses.replace(work, only=("cva-svhn",)).target("table1")


def test_a_run_of_an_earlier_version_is_found() -> None:
    now = json.loads(json.dumps(JOBS["cva-mnist"].recipe.to_json()))
    earlier = {field: value for field, value in now.items() if field != "prior_layers"}  # which there was not yet
    assert reproduce._recipe_told({"recipe": earlier}) == now
    for strange in ({**now, "prior_layers": -1}, {**now, "later": 1}, None):
        assert reproduce._recipe_told({"recipe": strange}) is None
    assert reproduce._recipe_told({}) is None


def test_it_is_stopped_and_goes_on(work: Reproduction) -> None:
    answers = itertools.chain([False], itertools.repeat(True))
    stopped = dataclasses.replace(work, should_stop=lambda: next(answers))
    with pytest.raises(Interrupted):
        stopped.target("imputation-mnist")
    (folder,) = [path.parent for path in work.runs.glob("*/run.json")]
    work.target("imputation-mnist")
    assert [path.parent for path in work.runs.glob("*/result.json")] == [folder]


def test_the_test_rows_are_looked_at_once_for_the_same_weights(
    work: Reproduction, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, target = JOBS["cnn-mnist"], TARGETS["table5"]
    small = dataclasses.replace(target, jobs=(job.name,))
    path = work._done(job, 0)
    work._look(job, 0, path, small)
    monkeypatch.setattr(reproduce, "evaluate_holes", None)
    work._look(job, 0, path, small)


def test_every_job_is_a_recipe_and_every_row_of_a_table_a_job() -> None:
    for target in TARGETS.values():
        for job in in_order(target.jobs):
            assert job.base in RECIPES
            assert job.recipe.name == job.name
    order = [job.name for job in in_order(("va-pegasos-mnist", "cmmva-svhn-from-cnn"))]
    assert order == ["va-mnist", "va-pegasos-mnist", "cnn-svhn", "cmmva-svhn-from-cnn"]


def test_the_commands_beside_a_figure_are_those_of_its_job() -> None:
    def commands(name: str) -> list[str]:
        found: dict[str, Any] = {"recipe": name, "seed": 2, "protocol": {"importance_samples": 7}}
        return [line.strip() for line in Row(name, (found,)).commands.splitlines()]

    train, evaluate = commands("cmmva-mnist-C-10")
    assert train == "mmdgm train cmmva-mnist --set C=10 --set name=cmmva-mnist-C-10 --seed SEED --out RUN"
    assert "--importance-samples 7" in evaluate
    assert commands("cmmva-svhn-from-cnn")[:2] == [
        "mmdgm train cnn-svhn --seed SEED --out START",
        "mmdgm train cmmva-svhn --set name=cmmva-svhn-from-cnn --seed SEED --init-from START --out RUN",
    ]
    assert commands("va-class-condition-mnist") == ["mmdgm reproduce table1 --seeds 3"]


@pytest.mark.parametrize("content", ["{}", "{", "[1]", '{"recipe": {}, "data": 3}'])
def test_what_is_no_run_and_no_result_is_passed_over(work: Reproduction, content: str) -> None:
    for path in (work.runs / "foreign" / "run.json", work.out / "results" / "cnn-mnist-seed-0-rect-6.json"):
        path.parent.mkdir(parents=True)
        path.write_text(content)
    job = JOBS["cnn-mnist"]
    path = work._done(job, 0)
    work._look(job, 0, path, dataclasses.replace(TARGETS["table5"], jobs=(job.name,)))
    assert json.loads((work.out / "results" / "cnn-mnist-seed-0-rect-6.json").read_text())["recipe"] == "cnn-mnist"


def test_a_result_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"recipe": "va-mnist", "protocol": {"split": "valid"}}')
    with pytest.raises(InputError, match=r"x\.json' is no result of the test rows"):
        read(tmp_path)


def test_a_job_with_a_field_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="field of a recipe"):
        _ = Job("x", "va-mnist", ("colour=red",)).recipe

"""The examples of the README and the docs run as they stand, and what they name is there."""

import ast
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mmdgm.cli import app
from mmdgm.experiments.jobs import JOBS, Job
from mmdgm.experiments.results import stale
from mmdgm.experiments.tutorial import page
from mmdgm.latents import LATENTS
from mmdgm.recipes import Recipe

ROOT = Path(__file__).parent.parent
LAYERS = (
    "errors", "storage", "recipes", "data", "runtime", "objective", "networks", "convolution", "latents", "priors",
    "likelihoods", "factors", "holes", "model", "operations", "gradients", "adversary", "augmentation", "optimisation",
    "evaluation", "diagnostics", "embedding", "transitions", "imputation", "evaluation_holes", "filling", "runs",
    "training", "sampling", "calibration", "novelty", "plots", "progress", "trained", "api", "other_imputers",
    "impute_run", "estimator", "plain_loop", "bench", "bench_imputation", "bench_tables", "bench_outliers",
    "experiments", "cli",
)  # fmt: skip


@pytest.mark.parametrize("page", ["README.md", "docs/adding-a-model.md"])
def test_examples_run(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S))
    known = dict(LATENTS)
    names: dict[str, Any] = {}
    try:
        exec(compile(code, page, "exec"), names)
    finally:
        LATENTS.clear()
        LATENTS.update(known)
    assert names["figures"].error_percent < 15
    assert "nats" in capsys.readouterr().out


def test_the_tutorial_runs_and_says_what_it_printed_but_for_figures() -> None:
    script, shown = ROOT / "docs/tutorial.py", (ROOT / "docs/tutorial.md").read_text()
    made = page(script.read_text(), {})

    def without_figures(text: str) -> str:  # another machine's last digits may differ, and so may a class
        return re.sub(r"[\d.]+|'\w+'|\s+", " ", text)

    assert without_figures(made).split() == without_figures(shown).split()


def test_the_readme_names_every_module_and_command() -> None:
    readme = (ROOT / "README.md").read_text()
    for module in (ROOT / "src/mmdgm").glob("*.py"):
        assert module.name.startswith("__") or module.name in readme
    for command in app.registered_commands:
        assert command.callback is not None
        if command.callback.__name__ != "results":
            assert f"mmdgm {command.callback.__name__}" in readme


def test_every_function_and_test_of_paper_to_code_is_there() -> None:
    page = (ROOT / "docs/paper-to-code.md").read_text()
    tests = re.findall(r"`(test_\w+\.py): (test_\w+)`", page)
    assert len(tests) >= 14
    for file, name in tests:
        assert f"def {name}(" in (ROOT / "tests" / file).read_text(), name
    for file, name in re.findall(r"`(?!test_)(\w+\.py): ([\w.]+)`", page):
        assert re.search(rf"(def|class) {name.split('.')[-1]}\b", (ROOT / "src/mmdgm" / file).read_text()), name


def test_the_tables_are_what_the_results_say() -> None:
    assert stale(ROOT) == []


def test_results_are_of_the_recipes_as_they_are() -> None:
    files = list((ROOT / "experiments/results").glob("*.json"))
    assert len(files) > 50
    for file in files:
        told = json.loads(file.read_text())
        job = JOBS.get(told["recipe"], Job(told["recipe"], told["recipe"]))
        trained = replace(Recipe.from_json(told["settings"]), summary=job.recipe.summary)
        assert trained == job.recipe, file.name


def test_imports_point_one_way() -> None:
    rank = {name: i for i, name in enumerate(LAYERS)}
    for path in (ROOT / "src/mmdgm").rglob("*.py"):
        own = path.relative_to(ROOT / "src/mmdgm").parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("mmdgm."):
                other = node.module.split(".")[1]
                assert rank[other] <= rank[own], f"{own} imports {other}"


def test_importing_the_package_is_free() -> None:
    code = "import mmdgm, sys; print('torch' in sys.modules); mmdgm.Recipe; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]

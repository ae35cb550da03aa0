"""The tables of the docs: means, spreads, verdicts, and nothing of the paper left out."""

import json
from pathlib import Path

import pytest

from mmdgm.experiments.paper import HOLE_TABLES, TABLES, verdict
from mmdgm.experiments.results import Row, page, read, short_table


def _result(seed: int, error: float | None, **more: object) -> dict[str, object]:
    machine = {"accelerator": None, "threads": 2}
    told = {"recipe": "cmmva-mnist", "seed": seed, "error_percent": error, "bound_nats": -90.0 - seed}
    told["protocol"] = {"split": "test"}
    rest = {"likelihood_nats": None, "settings": {"split": "whole"}, "versions": {"torch": "2"}, "data_sha256": "f"}
    return {**told, **rest, "data": "mnist", "training_seconds": 60.0, "machine": machine, **more}


def test_a_result_row_has_mean_spread_and_every_seed() -> None:
    row = Row("r", (_result(0, 0.8), _result(1, 1.0)))
    assert row.figure("error_percent") == "0.90 ± 0.14"
    assert row.each("error_percent") == "0.80, 1.00"
    assert "| -90.50 ± 0.71 | 0, 1 | 1.0 (2 CPU cores) |" in short_table([row])
    assert Row("r", (_result(0, None),)).figure("error_percent") == "-"


@pytest.mark.parametrize(
    ("key", "ours", "paper", "expected"),
    [
        ("error_percent", 0.454, 0.45, "equal"),
        ("error_percent", 0.44, 0.45, "better"),
        ("error_percent", 0.456, 0.45, "worse"),
        ("bound_nats", -99.0, -99.62, "better"),
        ("bound_nats", -112.13, -112.12, "worse"),
        ("mse", 0.01094, 0.0109, "equal"),
        ("mse", 0.0108, 0.0109, "better"),
    ],
)
def test_a_verdict_is_at_the_digits_of_the_paper(key: str, ours: float, paper: float, expected: str) -> None:
    assert verdict(key, ours, paper) == expected


def test_the_page_sets_every_row_of_the_paper_beside_ours(tmp_path: Path) -> None:
    protocol = {"split": "test", "method": "chain", "steps": 100, "chains": 2}
    by = {"mse_by": {"last_step": 0.06}, "error_by": {"last_step": 1.9, "zeros": 3.0}, "protocol": protocol}
    compared = [{"imputer": "mmdgm", "rows": 9, "mse": 0.5}, {"imputer": "mean", "rows": 9, "mse": 0.75}]
    found = [
        *(_result(seed, 0.4 + 0.02 * seed) for seed in (0, 1)),
        _result(0, 1.5, pattern="rect:6", mse=0.05, **by),
        _result(1, 1.7, pattern="rect:6", mse=0.06, **by),
        {**_result(0, 1.0, pattern="rect:8", mse=0.5, compared=compared, **by), "recipe": "cmmva-mnist-holes"},
    ]
    for i, one in enumerate(found):
        (tmp_path / f"{i}.json").write_text(json.dumps(one))
    text = page(read(tmp_path))
    assert "| CMMVA | 0.45 | `cmmva-mnist` | 0.41 ± 0.01 (better) | 0, 1 |" in text
    assert "| C = 1000 | 0.45 | -99.62 | `cmmva-mnist` | 0.41 ± 0.01 (better) | -90.50 ± 0.71 (better) | 0, 1 |" in text
    assert "| C = 10 | 0.88 | -95.90 | `cmmva-mnist-C-10` | - | - | - | not run yet |" in text
    assert "| `rect:6` | 0.0637 | 0.0645 | 0.0585 | 0.0597 | 0.0550 ± 0.0071 (better) | - |" in text
    assert "| `rect:6` | 7.5 | 2.5 | 1.9 | 1.60 ± 0.14 (better) | - |" in text
    assert "| `rect:6` | 0, 1 | 0.0500, 0.0600 | 0.0600, 0.0600 | 1.50, 1.70 | 1.90, 1.90 | 3.00, 3.00 |" in text
    assert "| hole | `cmmva-mnist-holes` | mean |" in text
    assert "| `rect:8` | 0.5000 | 0.7500 |" in text
    alone = "### cmmva-mnist-holes\n\n    mmdgm train cmmva-mnist-holes --seed SEED --out RUN\n\n- seeds: 0\n- training"
    assert alone in text  # no figures of whole rows, but its command and its seed
    for line in (line for table in TABLES for line in table.lines):
        assert f"| {line.model} | {line.figures['error_percent']:.2f} |" in text
    for pattern in (pattern for table in HOLE_TABLES for pattern in table.rows):
        assert f"| `{pattern}` |" in text


def test_the_page_shows_the_figures_that_there_are_and_their_commands() -> None:
    text = page(
        [],
        ("imputation-mnist-drop-0.8.png", "imputation-mnist-rect-12.png", "imputation-svhn-rect-12.png", "table2.png"),
    )
    both = "![imputation-mnist-{0}](../experiments/figures/imputation-mnist-{0})"
    shown = "\n".join(both.format(name) for name in ("drop-0.8.png", "rect-12.png"))
    assert f"### Filling in, step by step, MNIST\n\n    mmdgm reproduce imputation-mnist\n\n{shown}" in text
    assert "table2.png" not in text
    assert "imputation-svhn-rect" not in text  # images of SVHN are not for everybody
    assert "reproduce tsne" not in text
    assert "## Figures" not in page([])

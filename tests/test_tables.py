"""What is measured on tables and of outliers, and the page that tells of it."""

import json
from pathlib import Path

import numpy as np
import pytest

from mmdgm.bench_tables import OURS, _error, _one_hot, bench_tables
from mmdgm.data.tables import TABLES, load_table
from mmdgm.errors import InputError
from mmdgm.experiments import tables


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_rows_classes_and_numbers_that_may_be_missing(name: str) -> None:
    X, y = load_table(name)
    assert len(X) == len(y) > 100
    assert 2 <= len(set(y)) <= 10
    assert all(kind == np.float64 for kind in X.select_dtypes("number").dtypes)


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'wine'"):
        load_table("wines")


def test_categories_come_one_hot_and_missing_whole() -> None:
    X, _ = load_table("penguins")
    coded = _one_hot(X, np.arange(len(X)))
    assert coded.shape == (344, 4 + 3 + 2)
    missing = X["sex"].isna().to_numpy()
    assert missing.sum() == 11
    assert np.isnan(coded[missing, 7:]).all()
    assert (coded[~missing, 7:].sum(1) == 1).all()


def test_the_imputation_error_by_hand() -> None:
    X, _ = load_table("wine")
    number = list(X.columns)
    removed = np.zeros(X.shape, dtype=bool)
    removed[100, 0] = removed[101, 1] = True
    train, test = np.arange(100), np.arange(100, 178)
    filled = X.to_numpy()[100:].copy()
    scale = X.to_numpy()[:100].std(0)
    filled[0, 0] += 3 * scale[0]
    filled[1, 1] -= 1 * scale[1]
    assert _error(filled, X, removed, number, train, test) == pytest.approx(np.sqrt(5))


def test_the_page_says_how_ours_stands(tmp_path: Path) -> None:
    def line(method: str, share: float, seed: int, accuracy: float) -> dict[str, object]:
        told = {"table": "wine", "removed": share, "seed": seed, "method": method}
        error = {OURS: 0.5, "forest": 0.4 + 0.2 * seed if share == 0.3 else 0.45}[method]
        return {**told, "accuracy": accuracy, "error": error if share else None}

    figures = [line(OURS, s, seed, a) for s in (0.0, 0.3, 0.6) for seed, a in ((0, 0.9), (1, 0.94))]
    figures += [line("forest", s, seed, a) for s, a in ((0.0, 0.95), (0.3, 0.91), (0.6, 0.95)) for seed in (0, 1)]
    figures[-1]["accuracy"] = 0.85
    about = {
        "versions": {"torch": "2", "scikit-learn": "1"},
        "machine": {"cores": 2},
        "protocol": "removed",
        "seeds": 2,
    }
    folder = tmp_path / tables.FOLDER
    folder.mkdir(parents=True)
    assert tables.generated(tmp_path) == {}
    (folder / "tables.json").write_text(json.dumps({"figures": figures, **about}))
    (text,) = tables.generated(tmp_path).values()
    assert "| wine | 0 % | 92.0 ± 2.0 | **95.0 ± 0.0** |" in text
    assert "| wine | 30 % | **92.0 ± 2.0** | 91.0 ± 0.0 |" in text
    assert "| wine | 60 % | **92.0 ± 2.0** | 90.0 ± 5.0 |" in text
    assert "| wine | 30 % | **0.500 ± 0.000** | **0.500 ± 0.100** |" in text
    assert "| wine | 60 % | 0.500 ± 0.000 | **0.450 ± 0.000** |" in text
    assert "the first in 2 of 2 cells, and first or within one standard error of the first in 2;" in text
    assert "its imputation error is the least in 1, and the least or within one standard error of it in 1." in text


def test_the_bench_measures_every_method_on_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    from mmdgm.estimator import plan

    monkeypatch.setattr(plan, "_MOST_STEPS", 20)
    monkeypatch.setattr(plan, "_LEAST_STEPS", 20)
    found = bench_tables(("penguins",), 1, 1, lambda _: None)
    by = {(one["removed"], one["method"]): one for one in found["figures"]}
    assert len(by) == 3 * 6
    assert by[0.3, "k nearest neighbours, mean"]["error"] == by[0.3, "random forest, mean"]["error"]
    assert 0.8 < by[0.3, "random forest, mean"]["error"] < 1.2
    assert by[0.3, OURS]["error"] is not None
    assert by[0.3, "HistGradientBoosting"]["error"] is None
    assert all(0.2 < one["accuracy"] <= 1 for one in by.values())

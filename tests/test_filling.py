"""A user's own rows: filled in their own units and type, in their own file, and nothing else touched."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mmdgm import api, filling
from mmdgm.data.missing import parse_pattern
from mmdgm.errors import InputError
from mmdgm.impute_run import evaluate_holes, fill_from_file
from tests.conftest import PLAIN, images, small, table

QUICK: dict[str, Any] = {"steps": 6, "burn_in": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on images and one on a table, each with its file."""
    path = tmp_path_factory.mktemp("filling")
    np.savez(path / "images.npz", x=images().x, y=images().y)
    (path / "table.csv").write_text(_text())
    for name, file, changes in (
        ("images", "images.npz", {"C": 1.0}),
        ("table", "table.csv", {"likelihood": "columns", "C": 1.0}),
    ):
        api.train(small(**changes), str(path / file), 0, path / name, PLAIN)
    return path


def _text() -> str:
    data = table()
    lines = ["size,on,kind,label"]
    for i, (row, label) in enumerate(zip(data.x, data.y, strict=True)):
        cells = ["" if np.isnan(v) else "pqr"[int(v)] if j == 2 else f"{v:.3f}" for j, v in enumerate(row)]
        lines.append(",".join([*cells, "" if i == 3 else data.classes[label]]))
    return "\n".join(lines) + "\n"


def test_bytes_stay_bytes_and_observed_ones_stay_as_they_are(folder: Path) -> None:
    trained = api.load_run(folder / "images")
    x = images(7, seed=1).x
    mask = np.zeros((6, 5), dtype=bool)
    mask[2:4] = True
    found = trained.impute(x, mask, copies=2, **QUICK)
    assert found.x.dtype == np.uint8
    assert found.x.shape == x.shape
    for made in (found.x, *found.copies):
        np.testing.assert_array_equal(made[:, ~mask], x[:, ~mask])
    assert (found.x[:, mask] != x[:, mask]).any()
    assert (found.spread[:, mask] > 1).all()  # in bytes
    assert (found.spread[:, ~mask] == 0).all()


def test_numbers_in_0_to_1_are_the_same_images_as_bytes(folder: Path) -> None:
    trained = api.load_run(folder / "images")
    x = images(4, seed=1).x
    holed = x.astype(np.float64) / 255
    holed[:, 1:3] = np.nan
    mask = np.isnan(holed)
    as_numbers, as_bytes = trained.impute(holed, **QUICK), trained.impute(x, mask, **QUICK)
    np.testing.assert_allclose(as_numbers.x * 255, as_bytes.x, atol=0.51)
    assert as_numbers.x.dtype == np.float64
    assert np.array_equal(as_numbers.x[~mask], holed[~mask])
    assert np.isnan(holed[mask]).all()  # the caller's array is the caller's


def test_a_row_alone_a_row_of_holes_and_a_whole_one(folder: Path) -> None:
    trained = api.load_run(folder / "table")
    x = np.array([[np.nan, np.nan, np.nan], [10.0, 1.0, 2.0]])
    found = trained.impute(x, **QUICK)
    assert np.isfinite(found.x).all()
    np.testing.assert_array_equal(found.x[1], x[1])
    assert np.isnan(found.r_hat[1])
    assert found.x[0, 1] in (0, 1)
    assert found.x[0, 2] in (0, 1, 2)
    assert trained.impute(x[:1], **QUICK).x.shape == (1, 3)
    assert 3 < found.x[0, 0] < 22  # in the column's own units
    assert found.spread[0, 0] > 0.3


@pytest.mark.parametrize(
    ("x", "mask", "message"),
    [
        (np.array([[np.inf, 1, 0]]), None, "finite numbers or NaN"),
        (np.array([[1.0, 1, 7]]), None, "column 'kind' is categorical; it must hold codes from 0 to 2"),
        (np.array([[1.0, 1, 0]]), np.zeros((2, 3), dtype=bool), "mask: the mask must have the shape"),
        (np.zeros((0, 3)), None, "one or more rows"),
        (np.zeros((2, 4)), None, "rows of 3 values"),
    ],
)
def test_bad_rows(folder: Path, x: np.ndarray, mask: np.ndarray | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        api.load_run(folder / "table").impute(x, mask)


def test_an_npz_keeps_its_other_arrays_and_types(folder: Path, tmp_path: Path) -> None:
    x = images(5, seed=2).x
    np.savez(tmp_path / "mine.npz", x=x, y=np.arange(5) % 3, names=np.array(list("abcde")))
    mask = np.zeros((6, 5), dtype=bool)
    mask[:, :2] = True
    np.save(tmp_path / "holes.npy", mask)
    found, files = fill_from_file(
        folder / "images", tmp_path / "mine.npz", tmp_path / "out.npz", tmp_path / "holes.npy", copies=2, **QUICK
    )
    assert [file.name for file in files] == ["out.npz", "out-1.npz", "out-2.npz"]
    for file in files:
        stored = np.load(file)
        assert sorted(stored.files) == ["names", "x", "y"]
        assert stored["x"].dtype == np.uint8
        np.testing.assert_array_equal(stored["x"][:, ~mask], x[:, ~mask])
        np.testing.assert_array_equal(stored["names"], np.array(list("abcde")))
    np.testing.assert_array_equal(np.load(files[0])["x"], found.x)


def test_a_csv_keeps_every_cell_that_has_a_value(folder: Path, tmp_path: Path) -> None:
    fill_from_file(folder / "table", folder / "table.csv", tmp_path / "out.csv", **QUICK)
    with (folder / "table.csv").open() as before, (tmp_path / "out.csv").open() as after:
        was, now = list(csv.reader(before)), list(csv.reader(after))
    assert was[0] == now[0]
    holes = 0
    for i, (old, new) in enumerate(zip(was[1:], now[1:], strict=True)):
        for j, (a, b) in enumerate(zip(old, new, strict=True)):
            if a or j == 3:
                assert a == b  # what is there, and a label that is missing, stay
            else:
                holes += 1
                assert b, (i, j)
                assert (b in ("0", "1")) if j == 1 else (b in "pqr") if j == 2 else np.isfinite(float(b))
    assert holes > 50


def test_a_parquet_table_keeps_its_types(folder: Path, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {
        "size": pyarrow.array([None, 11.5, 9.0], pyarrow.float32()),
        "on": pyarrow.array([1, None, 0], pyarrow.int8()),
        "kind": pyarrow.array(["p", "q", None]),
        "label": pyarrow.array(["no", None, "yes"]),
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "in.parquet")
    fill_from_file(folder / "table", tmp_path / "in.parquet", tmp_path / "out.parquet", **QUICK)
    before, after = parquet.read_table(tmp_path / "in.parquet"), parquet.read_table(tmp_path / "out.parquet")
    assert before.schema == after.schema
    assert [after.column(name).null_count for name in after.column_names] == [0, 0, 0, 1]
    assert after.column("size").to_pylist()[1:] == [11.5, 9.0]
    assert after.column("kind").to_pylist()[:2] == ["p", "q"]
    assert after.column("kind").to_pylist()[2] in ("p", "q", "r")


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("images.npz", "out.csv", "--out must end in .npz"),
        ("images.npz", "images.npz", "--out must be another file than --input"),
        ("none.npz", "out.npz", "does not exist"),
        ("picture.png", "out.png", "--input must be a file of type .npz, .csv, .parquet"),
    ],
)
def test_bad_files(folder: Path, source: str, target: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fill_from_file(folder / "images", folder / source, folder / target)


def test_a_table_has_no_mask_file(folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.zeros((200, 3), dtype=bool))
    with pytest.raises(InputError, match="--mask is for arrays"):
        fill_from_file(folder / "table", folder / "table.csv", tmp_path / "o.csv", tmp_path / "m.npy")
    assert not (tmp_path / "o.csv").exists()


def test_measuring_draws_a_strip_and_an_animation(folder: Path, tmp_path: Path) -> None:
    found = evaluate_holes(folder / "images", parse_pattern("rect:2"), "valid", pictures=tmp_path, **QUICK)
    assert {"pattern", "mse", "error_percent"} <= set(found)
    assert found["pattern"] == "rect:2"
    assert 0 < found["mse"] < 1
    assert found["protocol"]["split"] == "valid"
    assert [Path(picture).name for picture in found["pictures"]] == ["imputed-rect-2.png", "imputed-rect-2.gif"]
    assert Path(found["pictures"][1]).read_bytes().startswith(b"GIF89a")
    assert "pictures" in found


def test_others_fill_the_same_holes(folder: Path) -> None:
    """Scikit-learn's mean is the training mean, whose error needs no imputer."""
    found = evaluate_holes(folder / "table", parse_pattern("drop:0.4"), "valid", compared=15, **QUICK)
    by = {one["imputer"]: one for one in found["compared"]}
    assert list(by) == ["mmdgm", "mean", "10 nearest neighbours", "iterative"]
    assert all(one["rows"] == 15 and one["mse"] > 0 for one in by.values())
    everything = evaluate_holes(folder / "table", parse_pattern("drop:0.4"), "valid", compared=10_000, **QUICK)
    assert everything["compared"][0]["mse"] == pytest.approx(everything["mse"], rel=1e-6)
    assert everything["compared"][1]["mse"] == pytest.approx(everything["mse_by"]["means"], rel=1e-6)


def test_measuring_on_a_table_draws_histograms(folder: Path, tmp_path: Path) -> None:
    found = evaluate_holes(folder / "table", parse_pattern("drop:0.5"), "valid", pictures=tmp_path, **QUICK)
    assert [Path(picture).suffix for picture in found["pictures"]] == [".png"]
    assert found["mse"] is not None
    assert found["mse_by"]["means"] is not None


def test_a_column_that_was_never_observed_is_refused_by_name() -> None:
    data = table()
    data.x[:, 0] = np.nan
    with pytest.raises(InputError, match="column 'size' has no observed value in the training rows"):
        api.train(small(likelihood="columns", C=1.0), data, 0, None, PLAIN)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16])
def test_whole_numbers_stay_in_the_range_of_their_type(kind: type) -> None:
    info = np.iinfo(kind)
    x: np.ndarray[Any, Any] = np.zeros((1, 3), dtype=kind)
    made = filling._into(x, np.array([[-1e9, 1e9, 3.4]], dtype=np.float32), np.ones((1, 3), dtype=bool))
    assert made.tolist() == [[info.min, info.max, 3]]
    assert made.dtype == kind


def test_a_run_remembers_its_label_column(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = "".join(f"{rng.normal():.3f},{rng.normal():.3f},{'pq'[i % 2]}\n" for i in range(40))
    (tmp_path / "mine.csv").write_text(f"a,b,species\n{rows},1.0,\n")
    api.train(small(likelihood="columns"), str(tmp_path / "mine.csv"), 0, tmp_path / "run", PLAIN, label="species")
    fill_from_file(tmp_path / "run", tmp_path / "mine.csv", tmp_path / "whole.csv", **QUICK)
    assert (tmp_path / "whole.csv").read_text().splitlines()[-1].endswith(",1.0,")
    assert api.evaluate_run(tmp_path / "run", data=str(tmp_path / "mine.csv"))["labelled"] == 40

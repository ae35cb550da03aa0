"""Sources, files, schemas and splits; and every way in which input can be bad."""

import gzip
import hashlib
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from mmdgm.data import download
from mmdgm.data.batches import resident, values
from mmdgm.data.dataset import UNKNOWN, Column, Schema, encode_labels
from mmdgm.data.download import Published, get
from mmdgm.data.sources import SOURCES, load
from mmdgm.data.splits import split
from mmdgm.errors import InputError, WorkError
from tests.conftest import images, table

CPU = torch.device("cpu")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(download, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


def published(**changes: object) -> Published:
    sha = {name: hashlib.sha256(name.encode() * 100).hexdigest() for name in ("one", "two")}
    return Published(**{"name": "things", "files": sha, "mirrors": (), **changes})  # type: ignore[arg-type]


def fill(folder: Path, packed: bool) -> Path:
    folder.mkdir()
    for name in ("one", "two"):
        content = name.encode() * 100
        (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)
    return folder


@pytest.mark.parametrize("packed", [False, True])
def test_files_from_a_folder_land_in_the_cache(cache: Path, tmp_path: Path, packed: bool) -> None:
    found = get(published(), fill(tmp_path / "mine", packed))
    assert (found / "one").read_bytes() == b"one" * 100
    assert get(published()) == found  # no source is needed any more


def test_a_wrong_file_is_refused_and_nothing_is_kept(cache: Path, tmp_path: Path) -> None:
    folder = fill(tmp_path / "mine", packed=False)
    (folder / "two").write_bytes(b"something else")
    with pytest.raises(InputError, match="sha256"):
        get(published(), folder)
    assert not (cache / "things" / "one").exists()
    with pytest.raises(InputError, match="missing"):
        get(published(), tmp_path / "cache")
    with pytest.raises(InputError, match="must be a folder"):
        get(published(), tmp_path / "nowhere")


def test_sources_are_tried_in_turn_and_all_failures_are_told(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def web(_: Published, mirror: str) -> dict[str, bytes]:
        tried.append(mirror)
        if mirror.endswith("good/"):
            return {name: name.encode() * 100 for name in ("one", "two")}
        if mirror.endswith("damaged/"):
            return {"one": b"x", "two": b"y"}
        raise OSError("no route to host")

    monkeypatch.setattr(download, "_from_web", web)
    with pytest.raises(WorkError) as raised:
        get(published(mirrors=("http://dead/", "http://damaged/"), debian_package="some-package"))
    for part in (
        "dead",
        "no route",
        "damaged",
        "sha256 of one, two is wrong",
        "--from FOLDER",
        "some-package",
    ):
        assert part in str(raised.value)
    tried.clear()
    get(published(mirrors=("http://dead/", "http://good/", "http://never/")))
    assert tried == ["http://dead/", "http://good/"]


def test_two_that_ask_at_once_get_one_copy(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def web(_: Published, mirror: str) -> dict[str, bytes]:
        calls.append(mirror)
        return {name: name.encode() * 100 for name in ("one", "two")}

    monkeypatch.setattr(download, "_from_web", web)
    threads = [threading.Thread(target=lambda: get(published(mirrors=("http://good/",)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_npm_names_its_archive_in_either_form() -> None:
    assert download._packed_name('[{"filename": "a-1.tgz"}]') == "a-1.tgz"
    assert download._packed_name('{"a@1": {"filename": "../a-1.tgz"}}') == "a-1.tgz"
    with pytest.raises(WorkError, match="did not say"):
        download._packed_name("oops")


def test_digits_need_no_download() -> None:
    digits = load("digits")
    assert digits.x.shape == (1797, 8, 8)
    assert (digits.x.min(), digits.x.max()) == (0, 1)
    assert SOURCES["digits"].at_hand


def test_labels_of_any_type() -> None:
    assert encode_labels(["b", "a", "", None, "b", b""])[0].tolist() == [1, 0, UNKNOWN, UNKNOWN, 1, UNKNOWN]
    assert encode_labels(np.array([10.0, np.nan, 2.0]))[1] == ("2.0", "10.0")
    assert encode_labels([True, False])[1] == ("False", "True")


def test_npz_with_holes_and_unlabelled_rows(tmp_path: Path) -> None:
    x = np.array([[1.0, np.nan], [2.0, 1.0], [3.0, 0.0]])
    np.savez(tmp_path / "mine.npz", x=x, y=np.array(["u", "v", ""]))
    data = load(str(tmp_path / "mine.npz"))
    assert data.classes == ("u", "v")
    assert data.y.tolist() == [0, 1, UNKNOWN]
    assert [c.kind for c in data.schema.columns] == ["real", "binary"]
    rows = resident(data, CPU)
    assert rows.observed.tolist() == [[True, False], [True, True], [True, True]]
    assert rows.x[0, 1] == 0


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"z": np.ones((3, 2))}, "must hold an array 'x'; it holds z"),
        ({"x": np.ones(3)}, "must have rows and columns"),
        ({"x": np.array([["a", "b"]])}, "must hold numbers"),
        ({"x": np.array([[1.0, np.inf]])}, r"entry at \(0, 1\) is infinite"),
        ({"x": np.full((2, 2, 2), 7.0)}, "from 7 to 7. Divide"),
        ({"x": np.zeros((2, 3, 5, 5), np.uint8)}, "channels last"),
        ({"x": np.ones((3, 2)), "y": np.arange(2)}, "one label for each of the 3 rows"),
        ({"x": np.ones((2, 2)), "y": np.array([None, 1], dtype=object)}, "astype"),
    ],
)
def test_bad_npz(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=message):
        load(str(tmp_path / "bad.npz"))


def test_a_file_that_is_no_npz(tmp_path: Path) -> None:
    (tmp_path / "bad.npz").write_bytes(b"hello")
    with pytest.raises(InputError, match="cannot be read as an .npz"):
        load(str(tmp_path / "bad.npz"))


CSV = "size,colour,on,label\n1.5,red,1,yes\n,blue,0,no\n2.5,?,1,yes\n3,red,0,\n"


def test_csv(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(CSV)
    data = load(str(tmp_path / "t.csv"))
    assert [(c.name, c.kind) for c in data.schema.columns] == [
        ("size", "real"),
        ("colour", "categorical"),
        ("on", "binary"),
    ]
    assert data.schema.columns[1].levels == ("blue", "red")
    assert np.isnan(data.x).sum() == 2
    assert data.y.tolist() == [1, 0, 1, UNKNOWN]
    assert load(str(tmp_path / "t.csv"), label="on").classes == ("0", "1")


def test_parquet_is_the_same_table(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"size": [1.5, None, 2.5, 3], "colour": ["red", "blue", None, "red"], "on": [1, 0, 1, 0]}
    parquet.write_table(arrow.table({**columns, "label": ["yes", "no", "yes", None]}), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text(CSV)
    one, other = load(str(tmp_path / "t.parquet")), load(str(tmp_path / "t.csv"))
    np.testing.assert_array_equal(one.x, other.x)
    assert one.schema == other.schema
    assert one.y.tolist() == other.y.tolist()


@pytest.mark.parametrize(
    ("text", "label", "message"),
    [
        ("a,b\n1,2\n3\n", None, "line 3: 1 cells, but the table has 2"),
        ("a,a\n1,2\n", None, "names that differ"),
        ("a,b\n1,2\n", "c", "unknown label column"),
        ("\n\n", None, "at least one row"),
        ("a,b\n", None, "at least one row"),
        ("label\nu\nv\n", None, "a column beside its label"),
        ("a,label\n1,u\ninf,v\n", None, "infinite"),
    ],
)
def test_bad_csv(tmp_path: Path, text: str, label: str | None, message: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        load(str(tmp_path / "t.csv"), label)


def test_a_folder_of_pictures(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for i in range(3):
            Image.new("RGB", (5, 4), (i, 100, 200)).save(tmp_path / name / f"{i}.png")
    data = load(str(tmp_path))
    assert data.x.shape == (6, 4, 5, 3)
    assert data.classes == ("cat", "dog")
    assert data.y.tolist() == [0, 0, 0, 1, 1, 1]
    Image.new("RGB", (6, 4)).save(tmp_path / "dog" / "other.png")
    with pytest.raises(InputError, match=r"one size.*'other.png' is \(4, 6, 3\)"):
        load(str(tmp_path))
    (tmp_path / "dog" / "other.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match="cannot be read as a picture"):
        load(str(tmp_path))


def test_16_bit_grey_is_scaled_and_an_empty_class_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.fromarray(np.full((2, 2), 257 * 100, dtype=np.uint16)).save(tmp_path / name / "1.png")
    assert load(str(tmp_path)).x.tolist() == [[[100, 100], [100, 100]]] * 2
    (tmp_path / "c").mkdir()
    with pytest.raises(InputError, match="subfolder without pictures, 'c'"):
        load(str(tmp_path))
    with pytest.raises(InputError, match="--label is for tables"):
        load(str(tmp_path), label="a")


def test_a_damaged_cache_is_filled_again(cache: Path, tmp_path: Path) -> None:
    found = get(published(), fill(tmp_path / "mine", packed=False))
    (found / "one").write_bytes(b"two" * 100)
    with pytest.raises(WorkError, match="could not get things"):
        get(published())
    assert (get(published(), tmp_path / "mine") / "one").read_bytes() == b"one" * 100


def test_times_a_minute_apart_stay_apart() -> None:
    x = 1.7e9 + 60 * np.arange(100.0)[:, None]
    schema = Schema(columns=(Column("time", "real"),)).fitted(x)
    assert len(np.unique(schema.encode(x))) == 100


def test_names_that_are_not_known(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'mnist'"):
        load("mnits")
    with pytest.raises(InputError, match="there is no file"):
        load("mine.npz")
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(InputError, match=r"must be a .npz, .csv or .parquet"):
        load(str(tmp_path / "a.txt"))
    with pytest.raises(InputError, match="--label is for tables"):
        load("digits", label="y")


def test_encode_and_decode_are_inverse_on_what_is_observed() -> None:
    data = table(300)
    schema = data.schema.fitted(data.x)
    encoded = schema.encode(data.x)
    assert encoded.shape == (300, 5)
    assert np.nanmean(encoded[:, 0]) == pytest.approx(0, abs=1e-5)
    assert np.nanstd(encoded[:, 0]) == pytest.approx(1, abs=1e-5)
    whole = ~np.isnan(data.x).any(axis=1)
    np.testing.assert_allclose(schema.decode(encoded[whole].astype(np.float32)), data.x[whole], rtol=1e-5)
    assert Schema.from_json(schema.to_json()) == schema


def test_a_constant_column_and_an_empty_one_stay_finite() -> None:
    x = np.array([[3.0, np.nan], [3.0, np.nan]], dtype=np.float32)
    schema = Schema(columns=(Column("a", "real"), Column("b", "real"))).fitted(x)
    assert schema.encode(x)[:, 0].tolist() == [0, 0]


@given(st.integers(20, 200), st.integers(0, 5), st.sampled_from(["paper", "whole"]))
def test_splits_are_disjoint_whole_stratified_and_seeded(n: int, seed: int, how: str) -> None:
    data = images(n, seed=1)
    parts = split(data, how, seed)  # type: ignore[arg-type]
    sizes = [len(part) for part in (parts.train, parts.valid, parts.test)]
    assert sum(sizes) == n
    assert (sizes[1] == 0) == (how == "whole")
    rows = sorted(row.tobytes() for part in (parts.train, parts.valid, parts.test) for row in part.x)
    assert rows == sorted(row.tobytes() for row in data.x)
    for code in range(3):
        assert abs((parts.test.y == code).sum() - 0.2 * (data.y == code).sum()) < 1
    assert len(parts.test) == round(0.2 * n)
    assert parts.test.sha256 == split(data, how, seed).test.sha256  # type: ignore[arg-type]


def test_the_official_test_rows_stay_the_test_rows() -> None:
    from dataclasses import replace

    data = replace(images(70), official_test=10, official_valid=10)
    parts = split(data, "paper", seed=3)
    assert [len(parts.train), len(parts.valid), len(parts.test)] == [50, 10, 10]
    np.testing.assert_array_equal(parts.test.x, data.x[-10:])
    np.testing.assert_array_equal(parts.valid.x, data.x[50:60])
    with pytest.raises(InputError, match="has no rows"):
        split(data, "whole", 0).part("valid")


def test_pixels_stay_bytes_until_a_step() -> None:
    rows = resident(images(10), CPU)
    assert rows.x.dtype == torch.uint8
    assert rows.observed.stride() == (0, 0)
    some = rows.rows(torch.tensor([3, 1]))
    torch.testing.assert_close(values(some.x), values(rows.x)[[3, 1]])
    assert values(torch.tensor([0, 255], dtype=torch.uint8)).tolist() == [0, 1]


def test_the_hash_sees_values_labels_and_shape() -> None:
    from dataclasses import replace

    data = images(10)
    other = [
        replace(data, y=(data.y + 1) % 3, _hash=[]),
        replace(data, x=data.x[:, ::-1], _hash=[]),
        replace(data, x=data.x.reshape(10, 5, 6), _hash=[]),
    ]
    assert len({data.sha256, *(one.sha256 for one in other)}) == 4
    assert images(10).sha256 == data.sha256


@pytest.mark.parametrize(
    ("text", "words"),
    [("a;b;y\n1;2;s\n", "separated by semicolons"), ("a\tb\n1\t2\n", "separated by tabs")],
)
def test_a_table_with_other_separators_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(InputError, match=words):
        load(str(tmp_path / "s.csv"))


@pytest.mark.parametrize("count", [np.array([1, 2]), "three", 1.5])
def test_an_official_part_must_be_a_number_of_rows(tmp_path: Path, count: object) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((9, 2)), official_test=count)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="must each be one whole number"):
        load(str(tmp_path / "a.npz"))


def test_images_without_a_pixel_and_values_without_bounds_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "holes.npz", x=np.full((5, 4, 4), np.nan))
    with pytest.raises(InputError, match="every one is NaN"):
        load(str(tmp_path / "holes.npz"))
    np.savez(tmp_path / "huge.npz", x=np.array([[1e300], [-1e300], [3e300], [5.0], [6.0]]))
    with pytest.raises(InputError, match="column 'x0' has values too large"):
        split(load(str(tmp_path / "huge.npz")), "whole", 0)


def test_a_parquet_column_of_lists_is_refused(tmp_path: Path) -> None:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    parquet.write_table(arrow.table({"a": [1.0, 2.0], "b": [[1], [2, 3]]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"column 'b'.*its type is list"):
        load(str(tmp_path / "t.parquet"))

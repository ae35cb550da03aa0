"""The program as it is typed: what it prints where, its exit codes, and what it says to bad input."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import images, table

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "NO_COLOR": "1"}


def mmdgm(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mmdgm.cli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT, check=False)


QUICK = ("--set", "hidden=16,12", "--set", "latent_size=4", "--set", "batch_size=20", "--epochs", "2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data file, and a run on it."""
    path = tmp_path_factory.mktemp("cli")
    np.savez(path / "data.npz", x=images().x, y=images().y)
    done = mmdgm(
        "train",
        "mmva-mnist",
        "--data",
        path / "data.npz",
        "--out",
        path / "run",
        "--seed",
        3,
        *QUICK,
        "--json",
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["seed"] == 3
    assert all(Path(picture).is_file() for picture in told["pictures"])
    assert len(told["pictures"]) == 4
    assert "epoch 2/2" in done.stderr
    return path


def test_help_is_there_at_once() -> None:
    began = time.monotonic()
    done = mmdgm("--help")
    assert done.returncode == 0
    assert all(
        command in done.stdout for command in ("train", "evaluate", "impute", "sample", "data", "recipes", "bench")
    )
    assert time.monotonic() - began < 5
    loaded = subprocess.run(
        [sys.executable, "-c", "import mmdgm.cli, sys; print('torch' in sys.modules, 'numpy' in sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert loaded.stdout.split() == ["False", "False"]


def test_evaluate(folder: Path) -> None:
    done = mmdgm("evaluate", folder / "run", "--importance-samples", 5, "--out", folder / "figures.json", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for key in (
        "error_percent",
        "bound_nats",
        "bound_standard_error",
        "examples",
        "recipe",
        "seed",
        "data_sha256",
        "protocol",
    ):
        assert key in found
    assert json.loads((folder / "figures.json").read_text()) == found
    assert found["examples"] == 40
    valid = json.loads(mmdgm("evaluate", folder / "run", "--split", "valid", "--json").stdout)
    assert valid["examples"] == 27
    assert "grey pixels" in mmdgm("evaluate", folder / "run").stdout
    both = mmdgm("evaluate", folder / "run", "--data", folder / "data.npz", "--split", "valid")
    assert both.returncode == 2
    assert "leave it out with --data" in both.stderr
    assert mmdgm("evaluate", folder / "run", "--label", "y").returncode == 2
    assert mmdgm("evaluate", folder / "run", "--device", "cuda:7").returncode == 2
    assert mmdgm("evaluate", folder / "run", "--out", folder).returncode == 2
    np.savez(folder / "other.npz", x=images().x, y=images().y + 10)
    other = mmdgm("evaluate", folder / "run", "--data", folder / "other.npz")
    assert (other.returncode, "are none of the run's" in other.stderr) == (2, True)
    every = mmdgm("evaluate", folder / "run", "--data", folder / "data.npz", "--json")
    assert json.loads(every.stdout)["examples"] == 200


def test_impute_measures_and_fills(folder: Path) -> None:
    figures = folder / "holes.json"
    few = ("--steps", 8, "--json")
    done = mmdgm("impute", folder / "run", "--pattern", "rect:2", "--split", "valid", "--out", figures, *few)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert json.loads(figures.read_text()) == found
    assert {"pattern", "mse", "error_percent", "recipe", "seed", "data_sha256", "protocol"} <= set(found)
    assert found["protocol"]["burn_in"] == 1
    assert all(Path(picture).is_file() for picture in found["pictures"])
    again = mmdgm("evaluate", folder / "run", "--pattern", "rect:2", "--split", "valid", *few)
    assert json.loads(again.stdout)["mse"] == found["mse"]
    x = images(6).x / 255
    x[:, 2:4] = np.nan
    np.savez(folder / "holes.npz", x=x)
    done = mmdgm("impute", folder / "run", "--input", folder / "holes.npz", "--out", folder / "whole.npz", *few)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    whole = np.load(folder / "whole.npz")["x"]
    assert told["filled"] == np.isnan(x).sum()
    assert np.isfinite(whole).all()
    assert np.array_equal(whole[~np.isnan(x)], x[~np.isnan(x)])
    assert "values filled in" in mmdgm(
        "impute", folder / "run", "--input", folder / "holes.npz", "--out", folder / "b.npz", "--steps", 5
    ).stdout  # fmt: skip
    both = mmdgm("impute", folder / "run", "--input", folder / "holes.npz", "--out", folder / "holes.npz")
    assert (both.returncode, "another file than --input" in both.stderr) == (2, True)


def test_sample(folder: Path) -> None:
    done = mmdgm("sample", folder / "run", "-n", 9, "--out", folder / "nine.png")
    assert done.returncode == 0
    assert (folder / "nine.png").read_bytes().startswith(b"\x89PNG")
    assert mmdgm("sample", folder / "run", "--out", folder / "nine.jpg").returncode == 2


def test_a_table_from_end_to_end(tmp_path: Path) -> None:
    data = table()
    names = ["size,on,kind,label"]
    for row, label in zip(data.x, data.y, strict=True):
        cells = ["" if np.isnan(v) else "pqr"[int(v)] if i == 2 else f"{v:g}" for i, v in enumerate(row)]
        names.append(",".join([*cells, data.classes[label]]))
    (tmp_path / "t.csv").write_text("\n".join(names))
    done = mmdgm("train", "mmva-table", "--data", tmp_path / "t.csv", "--out", tmp_path / "run", *QUICK)
    assert done.returncode == 0, done.stderr
    done = mmdgm("sample", tmp_path / "run", "-n", 5, "--draw")
    drawn = Path(done.stdout.strip()).read_text().splitlines()
    assert drawn[0] == "size,on,kind"
    assert len(drawn) == 6
    assert {line.split(",")[2] for line in drawn[1:]} <= set("pqr")
    assert "columns, real ones standardised" in mmdgm("evaluate", tmp_path / "run").stdout


def test_an_interrupted_run_exits_with_130_and_goes_on(folder: Path) -> None:
    run = folder / "long"
    command = [
        sys.executable,
        "-m",
        "mmdgm.cli",
        "train",
        "mmva-mnist",
        "--data",
        str(folder / "data.npz"),
        "--out",
        str(run),
    ]
    process = subprocess.Popen([*command, *QUICK[:-1], "5000"], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    while not list(run.glob("checkpoint-*")):
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert f"mmdgm train --resume {run}" in errors
    assert "Traceback" not in errors
    assert mmdgm("evaluate", run, "--json").returncode == 0
    assert mmdgm("train", "va-mnist", "--resume", run).returncode == 2
    assert mmdgm("train", "--resume", run, "--epochs", 3).returncode == 2


def test_resuming_a_finished_run_is_no_error(folder: Path) -> None:
    done = mmdgm("train", "--resume", folder / "run")
    assert done.returncode == 0
    assert "nothing left to do" in done.stderr


BAD = {
    "unknown recipe": (("train", "mmva-mnst"), "did you mean 'mmva-mnist'"),
    "no recipe": (("train",), "needs the name of a recipe"),
    "unknown field": (("train", "mmva-mnist", "--set", "epoch=3"), "did you mean 'epochs'"),
    "no value": (("train", "mmva-mnist", "--set", "C"), "FIELD=VALUE; got 'C'"),
    "wrong type": (
        ("train", "mmva-mnist", "--set", "epochs=many"),
        "epochs must be a whole number; got 'many'",
    ),
    "not a number": (("train", "mmva-mnist", "--set", "C=nan"), "C must be a number; got nan"),
    "out of range": (("train", "mmva-mnist", "--set", "C=-1"), "C must be at least 0; got -1"),
    "no such choice": (
        ("train", "mmva-mnist", "--set", "optimiser=adams"),
        "optimiser must be one of adam, sgd",
    ),
    "zero epochs": (("train", "mmva-mnist", "--epochs", "0"), "epochs must be at least 1; got 0"),
    "negative seed": (("train", "mmva-mnist", "--seed", "-1"), "--seed"),
    "clash": (
        ("train", "mmva-mnist", "--set", "estimator=score", "--set", "adversary=0"),
        "needs samples of at least 2",
    ),
    "unknown data": (("train", "mmva-mnist", "--data", "mnits"), "did you mean 'mnist'"),
    "no such file": (("train", "mmva-mnist", "--data", "no/where.npz"), "there is no file"),
    "bad precision": (("train", "mmva-mnist", "--data", "digits", "--precision", "int8"), "bf16 or float32"),
    "bad device": (("train", "mmva-mnist", "--data", "digits", "--device", "tpu"), "cannot be used here"),
    "no run": (("evaluate", "nowhere"), "is no run folder"),
    "nothing to impute": (("impute", "nowhere"), "needs --pattern, to measure, or --input and --out"),
    "impute without out": (("impute", "nowhere", "--input", "x.npz"), "--input needs --out"),
    "bad pattern": (("impute", "nowhere", "--pattern", "rect:x"), "--pattern must be rect:SIZE"),
    "copies of known rows": (("impute", "nowhere", "--pattern", "drop:.5", "--copies", "3"), "go with --input"),
    "split of a file": (
        ("impute", "nowhere", "--input", "x.npz", "--out", "y.npz", "--split", "test"),
        "go with --pattern",
    ),
    "bench what cannot impute": (("bench", "impute", "--recipe", "cnn-mnist"), "has a generative network"),
    "unknown split": (("evaluate", "nowhere", "--split", "tets"), "did you mean 'test'"),
    "unknown command": (("trian",), "train"),
    "chains of whole rows": (("evaluate", "nowhere", "--steps", 5), "they go with --pattern"),
    "likelihood with holes": (
        ("evaluate", "nowhere", "--pattern", "rect:2", "--importance-samples", 5),
        "leave them out with --pattern",
    ),
    "unknown target": (("reproduce", "tabel2"), "did you mean 'table2'"),
    "a model of all": (("reproduce", "all", "--model", "va-mnist"), "name the target"),
    "a model of another target": (("reproduce", "table3", "--model", "va-mnist", "--plan"), "model of table3"),
    "no seeds": (("reproduce", "table2", "--seeds", 0), "--seeds"),
    "unknown get": (("data", "get", "mnits"), "did you mean 'mnist'"),
    "table as picture": (("data", "show", "digits", "--out", "x.jpg"), "must end in .png"),
    "unknown recipe to show": (("recipes", "x"), "known: class-condition-va, "),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_and_exit_code_2(name: str, tmp_path: Path) -> None:
    words, message = BAD[name]
    done = mmdgm(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_data_commands(folder: Path) -> None:
    assert {row["name"] for row in json.loads(mmdgm("data", "list", "--json").stdout)["data"]} == {
        "mnist",
        "fashion-mnist",
        "svhn",
        "svhn-extra",
        "digits",
    }
    told = json.loads(mmdgm("data", "show", folder / "data.npz", "--json").stdout)
    assert told["rows"] == 200
    assert told["image_shape"] == [6, 5]
    assert "class 0: 178" in mmdgm("data", "show", "digits", "--out", folder / "d.png").stdout
    assert (folder / "d.png").is_file()


def test_recipes_are_listed_and_shown() -> None:
    assert "va-mnist" in mmdgm("recipes").stdout
    shown = mmdgm("recipes", "mmva-mnist-paper").stdout
    assert "500,500" in shown
    assert json.loads(mmdgm("recipes", "va-mnist", "--json").stdout)["C"] == 0


def test_a_version() -> None:
    from mmdgm import __version__

    assert mmdgm("--version").stdout.strip() == __version__

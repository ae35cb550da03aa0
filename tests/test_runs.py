"""The run folder keeps what it is given, whole, or says what is wrong with it."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from mmdgm.errors import InputError
from mmdgm.runs import RunFolder
from mmdgm.storage import write_atomically

STATE = {"epoch": 3, "step": 0}


def made(path: Path) -> RunFolder:
    folder = RunFolder.create(path, {"recipe": {"name": "small"}})
    folder.append_metrics({"epoch": 1})
    folder.save_checkpoint(3, {"model.w": torch.arange(4.0)}, STATE)
    return folder


def test_a_checkpoint_comes_back_and_replaces_the_one_before(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    folder.save_checkpoint(4, {"model.w": torch.ones(2)}, {"epoch": 4, "step": 1})
    stored = RunFolder.open(tmp_path / "run").load_checkpoint()
    assert stored is not None
    assert stored[0]["model.w"].tolist() == [1, 1]
    assert stored[1] == {"epoch": 4, "step": 1}
    assert [p.name for p in (tmp_path / "run").glob("checkpoint-*")] == ["checkpoint-4.safetensors"]


def test_averaged_weights_are_the_ones_to_use(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    assert folder.weights()["w"].tolist() == [0, 1, 2, 3]
    folder.save_checkpoint(4, {"model.w": torch.ones(2), "average.w": torch.zeros(2)}, STATE)
    assert folder.weights()["w"].tolist() == [0, 0]
    folder.finish({"w": torch.full((2,), 7.0)}, {"wall_seconds": 1.0})
    again = RunFolder.open(tmp_path / "run")
    assert again.weights()["w"].tolist() == [7, 7]
    assert again.result == {"wall_seconds": 1.0}
    assert not list((tmp_path / "run").glob("checkpoint-*"))


@pytest.mark.parametrize("name", ["run.json", "checkpoint-3.safetensors", "metrics.jsonl"])
def test_one_changed_bit_anywhere_is_noticed(name: str, tmp_path: Path) -> None:
    made(tmp_path / "run")
    path = tmp_path / "run" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"damaged: '{name}'"):
        RunFolder.open(tmp_path / "run")


def test_a_missing_file_and_a_folder_that_is_no_run(tmp_path: Path) -> None:
    made(tmp_path / "run")
    (tmp_path / "run" / "run.json").unlink()
    with pytest.raises(InputError, match="'run.json' is missing"):
        RunFolder.open(tmp_path / "run")
    with pytest.raises(InputError, match="is no run folder"):
        RunFolder.open(tmp_path)
    (tmp_path / "run" / "manifest.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        RunFolder.open(tmp_path / "run")


def test_metrics_after_the_checkpoint_are_forgotten_on_resuming(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    folder.append_metrics({"epoch": 2})
    again = RunFolder.open(tmp_path / "run")
    assert again.metrics == [{"epoch": 1}]
    again.forget_uncounted_metrics()
    again.append_metrics({"epoch": 22})
    again.save_checkpoint(5, {"model.w": torch.ones(1)}, STATE)
    assert RunFolder.open(tmp_path / "run").metrics == [{"epoch": 1}, {"epoch": 22}]


@pytest.mark.parametrize("crash_at", range(1, 8))
def test_a_crash_at_any_moment_leaves_a_whole_run(
    crash_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every replace, sync and unlink in turn is where the process dies."""
    folder = made(tmp_path / "run")
    calls = iter(range(1, 100))

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if next(calls) >= crash_at:
                raise KeyboardInterrupt
            return real(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for name in ("replace", "fsync"):
            patch.setattr(os, name, dying(getattr(os, name)))
        with suppress(KeyboardInterrupt):
            folder.save_checkpoint(4, {"model.w": torch.ones(2)}, {"epoch": 4, "step": 0})
    stored = RunFolder.open(tmp_path / "run").load_checkpoint()
    assert stored is not None
    assert (stored[1]["epoch"], len(stored[0]["model.w"])) in ((3, 4), (4, 2))


def test_an_atomic_write_leaves_nothing_behind_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomically(tmp_path / "a", b"old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(tmp_path / "a", b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_the_manifest_names_every_file(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    folder.put_picture("curves.png", b"png")
    folder.finish({"w": torch.ones(1)}, {})
    named = set(json.loads((tmp_path / "run" / "manifest.json").read_text())["files"])
    there = {p.name for p in (tmp_path / "run").iterdir()} - {"manifest.json", ".lock"}
    assert named == there

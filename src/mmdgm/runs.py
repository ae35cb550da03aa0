"""The run folder: everything that makes a run, and nothing that has to be trusted blindly.

    run.json                recipe, seed, data and their hash, versions, machine; written once
    metrics.jsonl           one line for each epoch, appended as it happens
    checkpoint-N.safetensors   all that resuming needs; the newest replaces the one before
    weights.safetensors     the weights to use, once training is done
    result.json             what training came to, once it is done
    manifest.json           length and sha256 of every file above, written last and at once

A file counts only once the manifest names it. Nothing is ever unpickled.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from mmdgm.errors import InputError, WorkError
from mmdgm.storage import to_bytes, write_atomically

Tensors = dict[str, Tensor]


class RunFolder:
    """One run on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._manifest: dict[str, dict[str, Any]] = {}

    @staticmethod
    def create(path: Path, description: dict[str, Any]) -> "RunFolder":
        """A new run, described by what goes into `run.json`; the folder must be new or empty."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(f"--out must be a new or an empty folder; '{path}' is in use. Choose another one.")
        folder = RunFolder(path)
        folder._put("run.json", to_bytes(description))
        folder._put("metrics.jsonl", b"")
        folder._seal()
        return folder

    @staticmethod
    def open(path: Path) -> "RunFolder":
        """A run that was written before, every file of it checked against the manifest."""
        manifest = path / "manifest.json"
        if not manifest.is_file():
            raise InputError(f"'{path}' is no run folder: it has no manifest.json. Give one that train wrote.")
        folder = RunFolder(path)
        try:
            files = json.loads(manifest.read_text())["files"]
            folder._manifest = {
                name: {"bytes": int(e["bytes"]), "sha256": str(e["sha256"])} for name, e in files.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"'{manifest}' is damaged: it is not the JSON that train writes.") from None
        for name in ("run.json", "metrics.jsonl"):
            if name not in folder._manifest:
                raise InputError(f"'{manifest}' is damaged: it does not name '{name}'.")
        for name in folder._manifest:
            folder._check(name)
        return folder

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Only one process may write to a run."""
        with open(self.path / ".lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"another process is training in '{self.path}'; wait for it, or stop it.") from None
            yield

    @property
    def description(self) -> dict[str, Any]:
        """What `run.json` holds."""
        return self._json("run.json")

    @property
    def result(self) -> dict[str, Any] | None:
        """What training came to, or nothing if it is not done."""
        return self._json("result.json") if "result.json" in self._manifest else None

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The lines of `metrics.jsonl` up to the newest checkpoint."""
        kept = (self.path / "metrics.jsonl").read_bytes()[: self._manifest["metrics.jsonl"]["bytes"]]
        return [json.loads(line) for line in kept.splitlines()]

    def append_metrics(self, line: dict[str, Any]) -> None:
        """One line more, for whoever watches; it counts from the next checkpoint on."""
        with open(self.path / "metrics.jsonl", "ab") as file:
            file.write(json.dumps(line).encode() + b"\n")

    def forget_uncounted_metrics(self) -> None:
        """Cut off the lines after the newest checkpoint, which a resumed run will write again."""
        os.truncate(self.path / "metrics.jsonl", self._manifest["metrics.jsonl"]["bytes"])

    def save_checkpoint(self, number: int, tensors: Tensors, state: dict[str, Any]) -> None:
        """All that resuming needs. The checkpoint before goes only when this one is safe."""
        old = self._checkpoint_name()
        new = f"checkpoint-{number}.safetensors"
        self._put(new, save(tensors, {"state": json.dumps(state)}))
        self._count_metrics()
        self._drop_checkpoint(keep=new)
        if old is not None and old != new:
            (self.path / old).unlink(missing_ok=True)

    def load_checkpoint(self) -> tuple[Tensors, dict[str, Any]] | None:
        """What `save_checkpoint` saved last, or nothing."""
        name = self._checkpoint_name()
        if name is None:
            return None
        tensors, metadata = self._tensors(name)
        return tensors, json.loads(metadata["state"])

    def finish(self, weights: Tensors, result: dict[str, Any]) -> None:
        """The weights to use and the result; the checkpoint is not needed any more."""
        old, told = self._checkpoint_name(), to_bytes(result)
        self._put("weights.safetensors", save(contiguous(weights)))
        self._put("result.json", told)
        self._count_metrics()
        self._drop_checkpoint(keep=None)
        if old is not None:
            (self.path / old).unlink(missing_ok=True)

    def weights(self) -> Tensors:
        """The weights to use: the finished ones, or those of the newest checkpoint."""
        if "weights.safetensors" in self._manifest:
            return self._tensors("weights.safetensors")[0]
        checkpoint = self.load_checkpoint()
        if checkpoint is None:
            raise InputError(f"'{self.path}' holds no weights yet; resume it: mmdgm train --resume {self.path}")
        tensors, _ = checkpoint
        for part in ("average.", "model."):
            chosen = {k.removeprefix(part): v for k, v in tensors.items() if k.startswith(part)}
            if chosen:
                return chosen
        raise WorkError(f"the checkpoint in '{self.path}' holds no weights.")

    @property
    def weights_sha256(self) -> str | None:
        """The hash of the finished weights."""
        entry = self._manifest.get("weights.safetensors")
        return entry["sha256"] if entry else None

    def put_picture(self, name: str, content: bytes) -> Path:
        """A picture of the run."""
        self._put(name, content)
        self._seal()
        return self.path / name

    def put_tensors(self, name: str, tensors: Tensors) -> None:
        """Further tensors, in a file of their own."""
        self._put(name, save(contiguous(tensors)))
        self._seal()

    def tensors(self, name: str) -> Tensors:
        """What `put_tensors` put there."""
        return self._tensors(name)[0]

    def _count_metrics(self) -> None:
        """Let the manifest name the lines that there are, once they are on disk."""
        with open(self.path / "metrics.jsonl", "rb") as file:
            os.fsync(file.fileno())
            self._manifest["metrics.jsonl"] = _entry(file.read())

    def _put(self, name: str, content: bytes) -> None:
        write_atomically(self.path / name, content)
        self._manifest[name] = _entry(content)

    def _seal(self) -> None:
        write_atomically(self.path / "manifest.json", to_bytes({"files": self._manifest}))

    def _drop_checkpoint(self, keep: str | None) -> None:
        self._manifest = {
            name: entry for name, entry in self._manifest.items() if not name.startswith("checkpoint-") or name == keep
        }
        self._seal()

    def _checkpoint_name(self) -> str | None:
        return next((name for name in self._manifest if name.startswith("checkpoint-")), None)

    def _check(self, name: str) -> None:
        entry = self._manifest[name]
        try:
            content = (self.path / name).read_bytes()
        except FileNotFoundError:
            raise InputError(f"the run '{self.path}' is incomplete: '{name}' is missing.") from None
        if name == "metrics.jsonl":  # it grows between checkpoints
            content = content[: entry["bytes"]]
        if _entry(content) != entry:
            raise InputError(
                f"the run '{self.path}' is damaged: '{name}' differs from what was written "
                "(its sha256 is not the manifest's). Restore it from a copy, or train again."
            )

    def _json(self, name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.path / name).read_text())
        return content

    def _tensors(self, name: str) -> tuple[Tensors, dict[str, str]]:
        try:
            with safe_open(self.path / name, framework="pt") as file:
                return {key: file.get_tensor(key) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118
        except SafetensorError as error:
            raise InputError(f"'{self.path / name}' is not a safetensors file: {error}.") from None


def contiguous(tensors: Tensors) -> Tensors:
    """Copies in main memory, each in one piece."""
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}


def _entry(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def state_tensors(prefix: str, state: dict[str, Any]) -> Tensors:
    """The tensors of a module's state, under a prefix."""
    return {f"{prefix}{name}": value for name, value in state.items() if isinstance(value, torch.Tensor)}

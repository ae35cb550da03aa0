"""Writing files so that a crash leaves the old one or the new one, and never half of one."""

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from mmdgm.errors import InputError, WorkError


def write_atomically(path: Path, content: bytes) -> None:
    """The whole content or none of it, on disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def to_bytes(content: Any) -> bytes:
    """JSON as this program writes it; a number that is none (NaN) has no place in it."""
    try:
        return (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except ValueError:
        message = "a figure is not a finite number: the model has diverged; train it with a smaller learning_rate."
        raise WorkError(message) from None


def check_target(path: Path, option: str) -> None:
    """Whether a file can be written there, said before any work is done for it."""
    if path.is_dir():
        raise InputError(f"{option} must be a file; '{path}' is a folder.")
    above = next((folder for folder in path.absolute().parents if folder.exists()), None)
    if above is not None and not above.is_dir():
        raise InputError(f"{option}: '{path}' cannot be written, since '{above}' is a file and no folder.")

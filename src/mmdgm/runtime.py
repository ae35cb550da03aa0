"""Where and how fast the numbers are computed: device, precision, compilation. None of it is part of a recipe."""

import ctypes
import hashlib
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any, Literal

import torch

from mmdgm.errors import InputError

Precision = Literal["bf16", "float32"]

_WORTH_COMPILING = 2e13
"""Operations of a run from which on compiling (half a minute on two cores) repays itself."""


@dataclass(frozen=True)
class Runtime:
    """A device, the precision of its matrix products, and whether the step is compiled."""

    device: str
    precision: Precision
    compile: bool

    @property
    def torch_device(self) -> torch.device:
        """The device."""
        return torch.device(self.device)

    def autocast(self) -> AbstractContextManager[Any]:
        """Matrix products in bf16 if that is the precision; everything else stays float32."""
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self.torch_device.type, dtype=torch.bfloat16)

    def to_json(self) -> dict[str, Any]:
        """As it stands in a run folder."""
        return asdict(self)


def choose_runtime(
    device: str | None = None,
    precision: str | None = None,
    compile: bool | None = None,
    operations: float = 0.0,
) -> Runtime:
    """What was asked for, or the best there is: CUDA, Apple's or the CPU; bf16 where the hardware has it."""
    device = device or _best_device()
    check_device(device)
    if precision is None:
        precision = "bf16" if _has_bf16(device) else "float32"
    if precision not in ("bf16", "float32"):
        raise InputError(f"precision must be bf16 or float32; got '{precision}'.")
    kind = torch.device(device).type
    can_compile = kind == "cuda" or (kind == "cpu" and any(map(shutil.which, ("c++", "g++", "clang++"))))
    if compile and not can_compile:
        raise InputError(f"compiling for {device} needs a C++ compiler (c++, g++ or clang++); use --no-compile.")
    if compile is None:
        compile = can_compile and operations >= _WORTH_COMPILING
    return Runtime(device, "bf16" if precision == "bf16" else "float32", compile)


def _best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def check_device(device: str) -> None:
    """Whether a device is there, said in one sentence if it is not."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"device '{device}' cannot be used here ({str(error).splitlines()[0]}); use cpu, or leave it out."
        ) from None


def _has_bf16(device: str) -> bool:
    if device.startswith("cuda"):
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    capabilities = torch.cpu.get_capabilities() if device == "cpu" else {}
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def keep_freed_memory() -> None:
    """Let the C library keep what is freed, for this process, rather than return it to the system at once.

    Every step frees and asks again for the same large tensors; returned memory costs a page fault for each 4 KiB
    when it is asked for again, a fifth of a training step on two cores. Only glibc has these settings.
    """
    mmap_max, trim_threshold, top_pad = -4, -1, -2  # names of mallopt(3)
    try:
        library = ctypes.CDLL(None)
        if not hasattr(library, "gnu_get_libc_version"):
            return
    except OSError:
        return
    library.mallopt(mmap_max, 0)
    library.mallopt(trim_threshold, -1)
    library.mallopt(top_pad, 64 << 20)


def generator(device: torch.device | str, *key: int | str) -> torch.Generator:
    """A generator whose numbers are a function of the key alone, such as (seed, "noise", epoch, step)."""
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:8], "little", signed=True))


@contextmanager
def drawing(key: torch.Generator) -> Iterator[None]:
    """torch's global generator, from which distributions draw, seeded by a key; afterwards it is as it was."""
    device = key.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(int(torch.randint(2**62, (), generator=key, device=device)))
        yield


def versions() -> dict[str, str]:
    """Of the programs that the figures depend on."""
    names = ("mmdgm", "torch", "numpy", "scikit-learn")
    return {"python": platform.python_version(), **{name: _version(name) for name in names}}


def _version(name: str) -> str:
    if name == "mmdgm":
        import mmdgm

        return mmdgm.__version__
    return version(name)


def machine(device: str) -> dict[str, Any]:
    """What kind of machine this is, without its name."""
    accelerator = torch.cuda.get_device_name(device) if device.startswith("cuda") else None
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": platform.system(),
        "accelerator": accelerator,
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
        return names[0] if names else platform.machine()
    except OSError:
        return platform.processor() or platform.machine()

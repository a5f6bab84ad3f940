"""Where a data set's files are: FEDBENCH_DATA (a path list), the system's packages, torchvision's download.

Tried in this order; `dataset.source` picks one of them.
"""

from __future__ import annotations

import os
import queue
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from datamodules.base import DataError

SOURCES = ("auto", "env", "system", "download")
CONNECT_SECONDS = 8.0


@dataclass(frozen=True)
class Package:
    """A package of the operating system."""

    name: str  # Debian's
    folder: Path


@dataclass(frozen=True)
class Files:
    """The files that make up a data set, and where they may be."""

    title: str
    name: str  # of its folder in FEDBENCH_DATA
    names: tuple[str, ...]  # all are needed, each plain or with .gz
    torchvision: str  # the class that downloads them, to <class>/raw
    recognise: Callable[[Path], bool]  # whether a folder without the set's name holds it and not one of its look-alikes
    package: Package | None = None


@dataclass(frozen=True)
class Place:
    folder: Path
    text: str  # for the record


def path_of(folder: Path, name: str) -> Path | None:
    """The file, plain or compressed."""
    return next((p for p in (folder / name, folder / f"{name}.gz") if os.path.isfile(p)), None)


def locate(files: Files, source: str) -> Place | None:
    """Where the files are on this machine, without downloading."""

    def complete(folder: Path) -> bool:
        return all(path_of(folder, name) for name in files.names)

    if source in ("auto", "env"):
        for root in _data_path():
            for folder in (root / files.name, root / files.torchvision / "raw"):
                if complete(folder):
                    return Place(folder, f"FEDBENCH_DATA: {folder}")
            if complete(root) and files.recognise(root):
                return Place(root, f"FEDBENCH_DATA: {root}")
    if source in ("auto", "system") and files.package and complete(files.package.folder):
        return Place(files.package.folder, f"Debian {files.package.name}")
    downloaded = _cache() / files.torchvision / "raw"
    if source in ("auto", "download") and complete(downloaded):
        return Place(downloaded, "torchvision download")
    return None


def obtain(files: Files, source: str) -> Place:
    """Like `locate`, but downloads where the source allows it."""
    place = locate(files, source)
    if place is None and source in ("auto", "download"):
        try:
            _download(files)
        except (OSError, HTTPException, RuntimeError) as error:
            reason = " ".join(str(error).split()).rstrip(".:")
            why = f"is not here and could not be downloaded ({reason})"
            raise DataError(_missing(files, why, offer_download=False)) from error
        place = locate(files, "download")
    if place is None and source == "env":
        given = os.environ.get("FEDBENCH_DATA")
        where = f"is not in FEDBENCH_DATA={given}" if given else "was to come from FEDBENCH_DATA, which is not set"
        raise DataError(_missing(files, where))
    if place is None:
        raise DataError(_missing(files, "is not among the system's packages"))
    return place


def how_to_get(files: Files, offer_download: bool = True) -> str:
    steps = [f"install Debian's {files.package.name}"] if files.package else []
    rest = f" and {len(files.names) - 1} more" if len(files.names) > 1 else ""
    steps.append(f"point FEDBENCH_DATA at a folder with {files.name}/{files.names[0]}[.gz]{rest}")
    if offer_download:
        steps.append("use dataset.source=download where there is internet")
    return ", or ".join(steps)


def _missing(files: Files, why: str, offer_download: bool = True) -> str:
    return f"{files.title} {why}: {how_to_get(files, offer_download)}; dataset=digits runs without it."


def _data_path() -> list[Path]:
    entries = os.environ.get("FEDBENCH_DATA", "").split(os.pathsep)
    return [Path(entry).expanduser().absolute() for entry in entries if entry]


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fedbench"


def _download(files: Files) -> None:
    """Into a temporary folder, renamed when complete: nothing half done stays, and two processes may do it at once."""
    from datamodules._ops import torchvision

    dataset = getattr(torchvision.datasets, files.torchvision)
    if not _answers(dataset.mirrors, CONNECT_SECONDS):
        raise OSError("no connection")
    cache = _cache()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".download-") as partial, _socket_timeout(CONNECT_SECONDS):
        dataset(partial, download=True)
        try:
            os.replace(Path(partial, files.torchvision), cache / files.torchvision)
        except OSError:
            if locate(files, "download") is None:  # otherwise another process was faster
                raise


def _answers(urls: Sequence[str], seconds: float) -> bool:
    """Whether any server answers in time; asked in threads, since looking up a name cannot be given a timeout."""
    answers: queue.Queue[bool] = queue.Queue()

    def ask(url: str) -> None:
        try:
            urlopen(Request(url, method="HEAD"), timeout=seconds).close()
        except HTTPError:  # it refuses this page, but it is there
            answers.put(True)
        except (OSError, HTTPException):
            answers.put(False)
        else:
            answers.put(True)

    for url in urls:
        threading.Thread(target=ask, args=(url,), daemon=True).start()
    deadline = time.monotonic() + seconds
    try:
        return any(answers.get(timeout=max(0.0, deadline - time.monotonic())) for _ in urls)
    except queue.Empty:
        return False


@contextmanager
def _socket_timeout(seconds: float) -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)

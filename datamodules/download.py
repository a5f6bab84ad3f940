"""torchvision's own downloads, which it checks by MD5."""

from __future__ import annotations

import inspect
import os
import queue
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from datamodules.cache import cache, workshop

CONNECT_SECONDS = 8.0


@dataclass(frozen=True)
class Torchvision:
    dataset: str  # the class
    folder: str  # what it writes below its root
    options: tuple[Mapping[str, Any], ...] = ({},)  # it is made once with each


def download(what: Torchvision, done: Callable[[Path], bool]) -> None:
    """Into the cache; OSError, HTTPException or RuntimeError where it fails."""
    from datamodules._torchvision import torchvision

    dataset = getattr(torchvision.datasets, what.dataset)
    if not _answers(_urls(dataset), CONNECT_SECONDS):
        raise OSError("no connection")
    top = Path(what.folder).parts[0]
    with workshop(top) as part, _socket_timeout(CONNECT_SECONDS):
        if done(cache() / what.folder):  # another process was faster
            return
        for options in what.options:
            dataset(part, download=True, **options)
        for archive in part.rglob("*.zip"):
            archive.unlink()
        os.replace(part / top, cache() / top)


def _urls(dataset: Any) -> Sequence[str]:
    """Where a class of torchvision's downloads from."""
    if hasattr(dataset, "url") or hasattr(dataset, "mirrors"):
        return [dataset.url] if hasattr(dataset, "url") else dataset.mirrors
    return re.findall(r'"(https?://[^"]+)"', inspect.getsource(dataset.download))


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

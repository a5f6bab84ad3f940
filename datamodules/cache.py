"""The folder for what was downloaded or converted: complete or not there, even with several processes at work."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fedbench"


@contextmanager
def workshop(what: str) -> Iterator[Path]:
    """An empty folder beside the finished things, removed at the end; one process at a time for the same `what`.

    Whoever had to wait looks again whether the work is done. Finish with os.replace(), which nobody sees half done.
    """
    import fcntl  # not on Windows, where nothing else here needs it

    cache().mkdir(parents=True, exist_ok=True)
    with open(cache() / f".lock-{what}", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another process that is getting {what}", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        with tempfile.TemporaryDirectory(dir=cache(), prefix=f".part-{what}-") as folder:
            yield Path(folder)


class Line:
    """A line that is written over on a terminal, and not at all elsewhere or with NO_COLOR."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty() and not os.environ.get("NO_COLOR")

    def show(self, text: str) -> None:
        if self.live:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        self.show("")

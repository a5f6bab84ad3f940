"""A lock on a file, which the system drops even when its process is killed."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path
from typing import TextIO

from bench.errors import UserError, cannot_write


def lock(path: Path) -> TextIO:
    """Held as long as the file that is returned stays open."""
    try:
        file = path.open("r+", encoding="utf-8")
    except OSError as error:
        raise cannot_write(path, error) from None
    for _ in range(10):  # a reader that looks at the status holds the lock for an instant
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except OSError:
            time.sleep(0.02)
    file.close()
    raise UserError(f"{path.parent} is being written by another process: the run has not ended.")


def is_locked(path: Path) -> bool:
    with path.open(encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False

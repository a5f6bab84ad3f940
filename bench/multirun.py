"""A multirun that was stopped, by Ctrl-C or worse, goes on when the same words are typed again.

While it runs, `<out>/.multirun-<digest of its words>` holds its group and the folders of its runs, and is locked.
"""

from __future__ import annotations

import fcntl
import inspect
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from bench.errors import UserError, cannot_write
from bench.prepare import registry
from bench.prepare.compose import ComposedRun
from bench.record import Run, make_folder, read

FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class Multirun:
    """Its group, and by number the runs that an earlier start of it has begun."""

    group: str
    earlier: dict[int, Run] = field(default_factory=dict)
    file: int | None = None

    @property
    def finished(self) -> int:
        return sum(run.result is not None for run in self.earlier.values())

    def begun(self, number: int, folder: Path) -> None:
        """Keeps where the run of this number is."""
        if self.file is not None:
            os.write(self.file, f"{number} {folder.name}\n".encode())


@contextmanager
def opened(runs: Sequence[ComposedRun], typed: str, group: str | None) -> Iterator[Multirun]:
    """Ended by anything but its end, it is found by the next start with the same words."""
    out = Path(runs[0].config["out"])
    path = out / f".multirun-{sha256(typed.encode()).hexdigest()[:16]}"
    existed = out.exists()
    make_folder(out)
    try:
        file = os.open(path, FLAGS, 0o666)
    except OSError as error:
        raise cannot_write(path, error) from None
    new = group or f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # the same words are at work elsewhere: these are another multirun
        os.close(file)
        yield Multirun(new)
        return
    try:
        found = _found(path, out, file, runs)
        if found is None or group not in (None, found.group):
            os.truncate(file, 0)
            os.write(file, f"{new}\n".encode())
            found = Multirun(new, file=file)
        yield found
        with suppress(OSError):
            path.unlink()
            if not existed:
                out.rmdir()  # nothing was run
    finally:
        os.close(file)


def _found(path: Path, out: Path, file: int, runs: Sequence[ComposedRun]) -> Multirun | None:
    """What an earlier start has left; None: nothing, or by other code of a method."""
    group, *lines = path.read_text(encoding="utf-8", errors="replace").splitlines() or [""]
    found = Multirun(group, file=file)
    for number, _, name in (line.partition(" ") for line in lines):
        with suppress(UserError, ValueError):
            run = read(out / Path(name).name)
            if run.config.get("group") == group and 1 <= int(number) <= len(runs):
                found.earlier[int(number)] = run
    if not found.earlier:
        return None
    for place, run in found.earlier.items():
        if (method := _changed_since(run.folder, runs[place - 1].config["algo"])) is not None:
            print(f"{method} has changed since this was stopped: all {len(runs)} runs begin afresh.", flush=True)
            return None
    return found


def _changed_since(folder: Path, algo: dict[str, Any]) -> str | None:
    """The method's file, if it is younger than the run."""
    source = Path(inspect.getfile(registry.classes("algo")[algo["name"]]))
    return str(source) if source.stat().st_mtime > (folder / "config.yaml").stat().st_mtime else None

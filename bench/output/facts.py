"""What a run ran on, so that another machine's different result can be explained."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # bench.record reads the revision, and needs no torch
    from torch import Tensor

ROOT = Path(__file__).resolve().parents[2]


def surroundings() -> dict[str, Any]:
    return {"git_revision": git_revision(), "versions": versions(), "machine": machine()}


def digest(w: Tensor) -> str:
    """SHA-256 of a model's numbers."""
    return hashlib.sha256(w.detach().cpu().numpy().tobytes()).hexdigest()


def git_revision() -> str | None:
    """Of the checkout this code runs from, "-dirty" if its code or settings differ from the commit."""
    try:
        folder, revision = _git("rev-parse", "--show-toplevel", "HEAD").rsplit("\n", 1)
        if Path(folder).resolve() != ROOT:
            return None
        changed = _git("status", "--porcelain", "--", "*.py", "*.[ch]", "bench/*.yaml", "pyproject.toml")  # not a run's
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{revision}-dirty" if changed else revision


def git_history() -> frozenset[str]:
    """Every commit that led to this checkout; none where it is no whole checkout."""
    if git_revision() is None or _git("rev-parse", "--is-shallow-repository") == "true":
        return frozenset()
    return frozenset(_git("rev-list", "HEAD").split())


def _git(*words: str) -> str:
    """Without the caller's GIT_DIR, and without a lock on the index."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    command = ["git", "-C", str(ROOT), "--no-optional-locks", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.strip()


def versions() -> dict[str, str]:
    packages = {"torch": "torch", "pytorch_lightning": "pytorch-lightning", "numpy": "numpy", "fedbench": "fedbench"}
    return {"python": platform.python_version(), **{name: version(package) for name, package in packages.items()}}


def machine() -> dict[str, str | int | None]:
    """Matrix products round differently on another kind of processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        cpu = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        cpu = platform.processor()
    return {"cpu": cpu, "cores": os.cpu_count(), "system": platform.platform(terse=True)}

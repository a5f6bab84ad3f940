"""SHA-256 of what is kept, so that a file that was edited, damaged or lost is noticed when it is read.

A folder's SHA256SUMS lists its files, as `sha256sum -c SHA256SUMS` checks them too. What has to be whole before the
others are there, config.yaml and small JSON, ends with the digest of what stands before it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.errors import UserError

LIST = "SHA256SUMS"
SINCE = 3  # the format (bench/output/versions.py) from which on everything has its digest
_SIGNED = re.compile(r"(?P<text>.*\n)sha256: (?P<digest>[0-9a-f]{64})\n", re.DOTALL)
_LINE = re.compile(r"(?P<digest>[0-9a-f]{64})  (?P<name>[\w.-]+)")


def of(content: bytes | str) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def changed(path: Path, undo: str = "undo that, or run it again") -> UserError:
    return UserError(f"{path} is not as it was written (its SHA-256 is another): {undo}.")


def signed(text: str) -> str:
    """YAML whose last line is the digest of the others."""
    return f"{text}sha256: {of(text)}\n"


def check_signed(path: Path, text: str, format: int) -> None:
    """Refuses YAML that has another digest than it says, or none although its format had one."""
    match = _SIGNED.fullmatch(text)
    if match and of(match["text"]) == match["digest"]:
        return
    if format >= SINCE or "\nsha256:" in text:
        raise changed(path)


def json_text(values: Mapping[str, Any]) -> str:
    """A JSON object with its own digest in it."""
    return json.dumps({**values, "sha256": _canonical(values)}, indent=2) + "\n"


def from_json(text: str) -> dict[str, Any]:
    """What `json_text` wrote; ValueError where it is anything else."""
    values = json.loads(text)
    if not isinstance(values, dict) or values.pop("sha256", None) != _canonical(values):
        raise ValueError("not as it was written")
    return values


def _canonical(values: Mapping[str, Any]) -> str:
    return of(json.dumps(values, sort_keys=True))


def listing(sums: Mapping[str, str]) -> str:
    """The text of SHA256SUMS: a line a file, by name."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))


def read_list(folder: Path) -> dict[str, str]:
    """What SHA256SUMS says, in whatever order: {} where there is none."""
    path = folder / LIST
    try:
        lines = path.read_bytes().decode().splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError):
        raise changed(path) from None
    found: dict[str, str] = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None or match["name"] in found:
            raise changed(path)
        found[match["name"]] = match["digest"]
    return found


def sums(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Of the files that are there."""
    return {name: of((folder / name).read_bytes()) for name in names if (folder / name).is_file()}


def check(folder: Path, names: Iterable[str]) -> None:
    """Refuses a folder in which one of these files is not as SHA256SUMS lists it, is missing or came later."""
    listed = read_list(folder)
    there = sums(folder, names)
    for name in sorted(listed.keys() | there.keys()):
        if name not in there:
            raise UserError(f"{folder / name} is missing, although {folder / LIST} lists it.")
        if name not in listed:
            raise UserError(f"{folder / name} is not listed in {folder / LIST}: it came later, or the list was cut.")
        if listed[name] != there[name]:
            raise changed(folder / name)

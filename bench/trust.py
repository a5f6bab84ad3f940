"""Which code of the user's may run: what a command line names, and nothing that only a record or a database names.

No torch here; bench/own_code.py loads it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FILE = re.compile(r"(?P<file>.+\.py)(?::(?P<name>\w+))?")
_named: set[str] = set()  # files, and classes in packages


def split(text: str) -> tuple[Path, str] | None:
    """./net.py:Net -> its absolute path and the name, "" where none is given; None: not a file of Python."""
    match = _FILE.fullmatch(text.strip())
    return match and (Path(match["file"]).expanduser().absolute(), match["name"] or "")


def name(target: str) -> None:
    """The user names this code, and so trusts it; what a record, a checkpoint or a database names is not loaded."""
    _named.add(_trusted_as(target))


def is_named(target: str) -> bool:
    return _trusted_as(target) in _named


def _trusted_as(target: str) -> str:
    found = split(target)
    return str(found[0].resolve()) if found else target.strip()


def targets(config: Mapping[str, Any]) -> dict[str, str]:
    """The code of the user's that a config would run, by the key that names it on a command line."""
    nodes = {key: config.get(key) for key in ("algo", "dataset", "task", "partition", "upload")}
    own = {}
    for key, node in nodes.items():
        for k, target in enumerate(listed(node) if isinstance(node, Mapping) else ()):
            if split(target):
                own[f"{key}.{k}" if key == "upload" else key] = target
    model = config.get("model")
    if isinstance(model, Mapping) and model.get("name") == "custom":
        own["model.target"] = str(model.get("target"))
    return own


def listed(node: Mapping[str, Any]) -> list[str]:
    """The classes of an option: of a row of transforms several, or none."""
    target = node.get("_target_", [])
    return list(map(str, target)) if isinstance(target, list) else [str(target)]


def words(config: Mapping[str, Any]) -> str:
    """What has to be added to a command that goes on with a run of this config, or repeats it."""
    found = targets(config)
    own = [f"{key}={target}" for key, target in found.items() if not key.startswith("upload.")]
    custom = ["model=custom"] if "model.target" in found else []
    upload = [f"upload={_row(config['upload'])}"] if len(own) < len(found) else []
    return "".join(f" {shlex.quote(word)}" for word in (*custom, *own, *upload))


def _row(node: Mapping[str, Any]) -> str:
    """topk+/path/mine.py:Mine"""
    each = zip(str(node["name"]).split("+"), listed(node), strict=True)
    return "+".join(target if split(target) else name for name, target in each)

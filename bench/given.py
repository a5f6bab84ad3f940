"""Objects of a program that a run uses: its config names them by a digest, and they live in this process alone."""

from __future__ import annotations

from typing import Any

from bench.errors import UserError

PREFIX = "object:"
_objects: dict[str, Any] = {}


def put(digest: str, what: Any) -> str:
    """The name by which it is found."""
    _objects[f"{PREFIX}{digest}"] = what
    return f"{PREFIX}{digest}"


def get(name: str, key: str) -> Any:
    """`key` is what `federate` was given it as."""
    if name not in _objects:
        raise UserError(
            f"The {key} of this run is an object of the program that made it, not known here: in Python, "
            f"federate(resume=FOLDER, {key}=...) with the same one goes on."
        )
    return _objects[name]


def is_name(text: object) -> bool:
    return isinstance(text, str) and text.startswith(PREFIX)


def digest(name: str) -> str:
    return name.removeprefix(PREFIX)

"""How a key of a run is declared: what --help says of it, its default, and the values it can have."""

from __future__ import annotations

from dataclasses import MISSING, field
from typing import Any

COUNT = {"min": 1, "below": 2**63}
PHYSICAL = {"min": 1e-9, "max": 1e9}  # seconds, MB/s and what they are multiplied with: no time overflows


def key(text: str, default: Any = MISSING, **allowed: Any) -> Any:
    """A field of a dataclass of keys; `allowed` are the bounds or the choices that bench/prepare/check.py knows."""
    metadata = {"help": text, **allowed}
    if isinstance(default, list | dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)

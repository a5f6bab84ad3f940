"""The keys of a config, of a result too, as they are written on the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def dotted(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """algo: {name: fedprox, mu: 0.1} is algo = fedprox and algo.mu = 0.1."""
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from dotted(value, f"{prefix}{key}.")
        elif key == "name" and prefix:
            yield prefix[:-1], value
        elif key != "_target_":
            yield f"{prefix}{key}", value

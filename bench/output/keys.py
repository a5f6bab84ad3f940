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


def is_of_run(config: Mapping[str, Any]) -> bool:
    """Whether a config has what every run's has; one of another program's has not."""
    nodes = [config.get(group) for group in ("algo", "dataset")]
    named = all(isinstance(node, dict) and isinstance(node.get("name"), str) for node in nodes)
    return named and isinstance(config.get("seed"), int) and "created" in config

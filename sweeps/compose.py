"""From the words of one benchmark to its config."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def config(words: Iterable[str]) -> dict[str, Any]:
    """Resolved and checked."""
    from bench.main import plan, store

    store()
    return plan(list(words), multirun=False)[0]

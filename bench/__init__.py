"""fedbench: `from bench import federate` runs a federated benchmark from a program; python bench.py does at the prompt.

Importing it takes no time: what is heavy is imported when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.api import Result, Results, federate

__all__ = ["Result", "Results", "federate"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'bench' has no attribute '{name}'")
    from bench import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

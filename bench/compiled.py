"""What was compiled from bench/c when fedbench was installed."""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache
from pathlib import Path

import numpy as np

SOURCES = Path(__file__).with_name("c")


@cache
def library() -> ctypes.CDLL | str:
    """Its functions; or why they cannot be used."""
    found = importlib.util.find_spec("bench._compiled")
    if found is None or found.origin is None:
        return "its C part was not built: make setup does it where there is a C compiler"
    built = Path(found.origin)
    if any(source.stat().st_mtime > built.stat().st_mtime for source in SOURCES.glob("*.[ch]")):
        return "its C part has changed since it was built: run make setup"
    return ctypes.CDLL(str(built))


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.ctypes.data)

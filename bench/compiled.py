"""What was compiled from bench/c when fedbench was installed."""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.errors import UserError

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
    return load(built)


def load(built: Path) -> ctypes.CDLL:
    """Each of its functions looks at what it is given first, and returns what is wrong with it."""
    found = ctypes.CDLL(str(built))
    found.train.restype = found.answer.restype = found.shuffles.restype = ctypes.c_char_p
    return found


def pointer(array: np.ndarray, dtype: npt.DTypeLike, *shape: int) -> ctypes.c_void_p:
    """Where C finds an array of this kind, while it lives."""
    if array.dtype != dtype or array.shape != shape or not array.flags.carray:
        kind = f"{np.dtype(dtype)} of shape {list(shape)}"
        raise UserError(f"The C part takes {kind} without gaps, not {array.dtype} of shape {list(array.shape)}.")
    return ctypes.c_void_p(array.ctypes.data)


def accepted(why: bytes | None) -> None:
    """What a function returned."""
    if why is not None:
        raise UserError(f"The C part was given {why.decode()}.")

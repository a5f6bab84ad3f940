"""How Python and the C library are set for runs: fewer page faults, fewer searches for garbage."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TRIM, MMAP = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
KEPT = 2**28  # bytes of free memory that are not given back
LARGEST = 2**25  # bytes of a block that may come from there; glibc's own limit


def keep_memory() -> None:
    """Of the vectors that every round makes and drops, glibc would give the memory back: to be handed it anew took
    9 of 21 ms of a round of a thousand small devices."""
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(TRIM, KEPT)
        library.mallopt(MMAP, LARGEST)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Jobs in flight are many and live long: looking through them again and again took a third of the clock's time."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()

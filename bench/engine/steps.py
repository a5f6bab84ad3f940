"""How many local steps have been taken, for whoever wants to know while an engine is at work."""

from __future__ import annotations

import mmap

SIZE = 8  # bytes of a number


class Steps:
    """Of this process and those forked from it: each adds to a number of its own, so that none waits for another."""

    def __init__(self, processes: int = 1) -> None:
        self._taken = memoryview(mmap.mmap(-1, SIZE * processes)).cast("q")
        self.own = 0  # which of the numbers is this process's

    def add(self, steps: int) -> None:
        self._taken[self.own] += steps

    @property
    def total(self) -> int:
        return sum(self._taken)

"""What others see of an engine while it is at work, and how they stop it: of all processes that share a run."""

from __future__ import annotations

import mmap

SIZE = 8  # bytes of a number


class Stopped(KeyboardInterrupt):
    """Training was left unfinished, since somebody asked for that; nothing else has changed."""


class Steps:
    """Local steps taken by this process and those forked from it: each adds to a number of its own, so that none waits
    for another."""

    def __init__(self, processes: int = 1) -> None:
        self._taken = memoryview(mmap.mmap(-1, SIZE * processes)).cast("q")
        self._stop = mmap.mmap(-1, 1)
        self.own = 0  # which of the numbers is this process's

    def add(self, steps: int) -> None:
        self.look()
        self._taken[self.own] += steps

    def stop(self) -> None:
        """Every process ends what it is at when it looks next."""
        self._stop[0] = 1

    def look(self) -> None:
        if self._stop[0]:
            raise Stopped

    @property
    def total(self) -> int:
        return sum(self._taken)

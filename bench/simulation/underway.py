"""How far training is, for another thread to ask while it goes on."""

from __future__ import annotations

import operator
import time

from bench.engine.pool import Trains
from bench.simulation.dispatch import Dispatch

START = 8  # devices that are trained together while it is not known how long one takes
LONG = 1.0  # seconds that a call is to take: much more than what is around it, and soon enough over


class Underway:
    """Devices that have been trained since this process began, and those that are being trained now."""

    def __init__(self, engine: Trains) -> None:
        self._engine = engine
        self.trained = self.devices = 0
        self._before, self._steps, self._begin = 0, 1, 0.0
        self._fitting = START * engine.parallel_parts  # devices that are trained in LONG, as far as is known

    def begin(self, rows: Dispatch) -> None:
        self._steps = max(1, sum(map(operator.mul, rows.epochs, rows.steps_per_epoch)))
        self._before = self._engine.steps.total
        self.devices, self._begin = len(rows), time.perf_counter()

    def end(self) -> None:
        seconds = time.perf_counter() - self._begin
        self._fitting = 1 + int(self.devices * LONG / max(seconds, 1e-9))
        self.devices, self.trained = 0, self.trained + self.devices

    @property
    def together(self) -> int:
        """How many devices to train in one call where nobody waits for more: it changes no bit of what they learn."""
        return max(self._fitting, self._engine.together)

    @property
    def share(self) -> float:
        """Of the steps of those being trained; what a lost worker did is done, and counted, again."""
        return min(1.0, (self._engine.steps.total - self._before) / self._steps)

"""How far training is, for another thread to ask while it goes on."""

from __future__ import annotations

import operator

from bench.engine.pool import Trains
from bench.simulation.dispatch import Dispatch


class Underway:
    """Devices that have been trained since this process began, and those that are being trained now."""

    def __init__(self, engine: Trains) -> None:
        self._engine = engine
        self.trained = self.devices = 0
        self._before, self._steps = 0, 1

    def begin(self, rows: Dispatch) -> None:
        self._steps = max(1, sum(map(operator.mul, rows.epochs, rows.steps_per_epoch)))
        self._before = self._engine.steps.total
        self.devices = len(rows)

    def end(self) -> None:
        self.devices, self.trained = 0, self.trained + self.devices

    @property
    def share(self) -> float:
        """Of the steps of those being trained; what a lost worker did is done, and counted, again."""
        return min(1.0, (self._engine.steps.total - self._before) / self._steps)

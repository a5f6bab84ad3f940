"""How much of a run is done, also within a round."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bench.simulation.loop import FederatedLoop


class Course:
    """Goes by the devices that have been trained, which may be rounds ahead of their uploads, and by finished rounds
    for the rest (tests, above all), in the proportion that the forecast found."""

    def __init__(self, loop: FederatedLoop, config: Mapping[str, Any], expected: Mapping[str, float]) -> None:
        self.loop, self.rounds = loop, int(config["rounds"])
        self._seconds: float = config["virtual_seconds"] or math.inf
        self._jobs = expected.get("jobs") or math.inf  # a run begun before these two were kept goes by rounds alone
        self._training = expected.get("training_seconds", 0.0) / max(expected["seconds"], 1e-9)
        self._begun = 0.0
        self._reported = 0

    def begin(self) -> float:
        """A resumed run begins where it was left."""
        self._reported, self._begun = self.loop.round, self._by_rounds(self.loop.round)
        return self.fraction

    def reported(self) -> None:
        """The round is over, evaluated and recorded."""
        self._reported = self.loop.round

    @property
    def fraction(self) -> float:
        if self.loop.finished and self._reported == self.loop.round:
            return 1.0
        trained = self._begun + self._trained / self._jobs
        latest = (self.loop.round + 1) / self.rounds if self.loop.sync and self._seconds == math.inf else 1.0
        trained = max(self._by_rounds(self.loop.round), min(trained, latest))
        return self._training * trained + (1 - self._training) * self._by_rounds(self._reported)

    @property
    def label(self) -> str:
        """Of the round that is going on."""
        at_work, now = self.loop.underway, min(self._reported + 1, self.rounds)
        if not at_work.devices:
            return f"round {now}/{self.rounds}"
        share, many = at_work.share, f"{at_work.devices} device{'s' if at_work.devices > 1 else ''}"
        return f"round {now}/{self.rounds}, {many} {f'{100 * share:.0f} % trained' if share else 'in training'}"

    @property
    def _trained(self) -> float:
        at_work = self.loop.underway
        return at_work.trained + at_work.devices * at_work.share

    def _by_rounds(self, rounds: int) -> float:
        return min(1.0, max(rounds / self.rounds, self.loop.clock.now / self._seconds))

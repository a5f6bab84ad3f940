"""What one reporting round adds up to."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

# client, version, dispatched, begins, finish, arrival, outcome
Ended = tuple[int, int, float, float, float, float, str]


@dataclass
class Tally:
    """Sums over one reporting round."""

    loss: float = 0.0
    weight: float = 0.0
    staleness: list[int] = field(default_factory=list)
    seconds: float = 0.0
    aggregate_seconds: float = 0.0

    def add(self, losses: Iterable[float], weights: Iterable[float]) -> None:
        sum_of_losses, sum_of_weights = self.loss, self.weight
        for loss, weight in zip(losses, weights, strict=True):
            sum_of_losses += loss * weight
            sum_of_weights += weight
        self.loss, self.weight = sum_of_losses, sum_of_weights

    def row(self) -> dict[str, float]:
        stale = self.staleness
        return {
            "train_loss": self.loss / self.weight if self.weight else math.nan,
            "staleness_mean": sum(stale) / len(stale) if stale else math.nan,
            "staleness_max": max(stale, default=math.nan),
            "aggregate_seconds": self.aggregate_seconds,
        }

"""Buffered asynchronous aggregation."""

from __future__ import annotations

from dataclasses import dataclass, field

from algorithms.base import Algorithm, Fed, Schedule, State, Updates
from algorithms.ops import staleness_decay


@dataclass(frozen=True, kw_only=True)
class FedBuff(Algorithm):
    """Buffered asynchronous aggregation: every K uploads make a version, and whoever uploads is replaced at once.

    Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek, Huba: Federated Learning with Buffered Asynchronous Aggregation.
    AISTATS 2022.

    Deviations: the mean is over the run's weights (weighting=uniform is the paper's 1/K). The cohort is the number of
    devices at work (the paper's concurrency). A device whose upload waits in the buffer is drawn again only where
    nobody else is idle. No server momentum, no clipping and no noise.
    """

    K: int = field(default=10, metadata={"min": 1})
    eta_g: float = field(default=1.0, metadata={"above": 0})
    p: float = field(default=0.5, metadata={"min": 0})  # of the staleness's weight, 1 / sqrt(1 + tau)

    def schedule(self, fed: Fed) -> Schedule:
        return Schedule(fed.cohort, self.K, "at_once")

    def aggregate(self, server: State, updates: Updates, fed: Fed) -> State:
        share = updates.weight * staleness_decay(updates.staleness, "poly", self.p, 0.0)
        return {**server, "w": server["w"] + self.eta_g * (share @ updates.delta)}  # Alg. 1, l. 9-13

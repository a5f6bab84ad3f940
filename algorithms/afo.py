"""Asynchronous federated optimisation as FedLC compares with it."""

from __future__ import annotations

from dataclasses import dataclass, field

from algorithms.base import Algorithm, Fed, Schedule, State, Updates


@dataclass(frozen=True, kw_only=True)
class AFO(Algorithm):
    """Asynchronous federated optimisation with adaptive weight: each arrival is mixed in with alpha / (staleness + 1).

    Xie, Koyejo, Gupta: Asynchronous Federated Optimization. OPT 2020 (arXiv 1903.03934), in the form of FedLC's
    baseline (Xu et al., IEEE Transactions on Mobile Computing, Sec. 5.1.3): no proximal term.

    Deviations: none; with a buffer larger than one (the run's `buffer` key) the models are mixed in together, each
    with its own rate times its weight.
    """

    alpha: float = field(default=0.6, metadata={"above": 0, "max": 1})  # FedLC's x

    def schedule(self, fed: Fed) -> Schedule:
        return Schedule(fed.clients, 1)

    def aggregate(self, server: State, updates: Updates, fed: Fed) -> State:
        x_t = self.alpha / (updates.staleness + 1) * updates.weight
        return {**server, "w": (1 - x_t.sum()) * server["w"] + x_t @ updates.model}

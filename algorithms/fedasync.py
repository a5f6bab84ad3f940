"""Asynchronous federated optimisation."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from algorithms.base import Algorithm, Fed, Jobs, LocalRule, Schedule, State, Updates
from algorithms.ops import one_of, staleness_decay


@dataclass(frozen=True, kw_only=True)
class FedAsync(Algorithm):
    """Asynchronous federated optimisation: each arrival is mixed in at once, the less the staler it is.

    Xie, Koyejo, Gupta: Asynchronous Federated Optimization. OPT 2020 (arXiv 1903.03934).

    Deviations: with a buffer larger than one (the run's `buffer` key; the paper has one) the models are mixed in
    together, each with its own rate times its weight.
    """

    alpha: float = field(default=0.6, metadata={"above": 0, "max": 1})
    staleness: str = "poly"
    p: float = field(
        default=0.5, metadata={"min": 0, "only": {"staleness": ("poly", "hinge")}}
    )  # the paper's a in s_a(d)
    b: float = field(default=4.0, metadata={"min": 0, "only": {"staleness": ("hinge",)}})
    mu: float = field(default=0.005, metadata={"min": 0})  # the paper's rho

    def __post_init__(self) -> None:
        one_of(self, staleness=("const", "poly", "hinge"))

    def schedule(self, fed: Fed) -> Schedule:
        return Schedule(fed.clients, 1)

    def local(self, jobs: Jobs, w: Tensor, epoch: int, fed: Fed) -> LocalRule:
        return LocalRule(prox=self.mu)  # Alg. 1, Process Worker

    def aggregate(self, server: State, updates: Updates, fed: Fed) -> State:
        mixing = self.alpha * staleness_decay(updates.staleness, self.staleness, self.p, self.b) * updates.weight
        return {**server, "w": (1 - mixing.sum()) * server["w"] + mixing @ updates.model}  # Alg. 1, Process Updater

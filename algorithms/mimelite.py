"""Mime without control variates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.base import Algorithm, Fed, Jobs, LocalRule, State, Trained, Updates, Upload


@dataclass(frozen=True, kw_only=True)
class MimeLite(Algorithm):
    """Mime without control variates: local steps use the server's momentum, which stays frozen during the round.

    Karimireddy, Jaggi, Kale, Mohri, Reddi, Stich, Suresh: Breaking the centralized barrier for cross-device federated
    learning (Mime). NeurIPS 2021. The base optimiser is SGD with momentum.

    Deviations: none. Full-batch gradients at the received model feed the momentum, each device once and unweighted;
    the mean of the models follows the run's `weighting`.
    """

    broadcast: ClassVar[tuple[str, ...]] = ("w", "m")
    extra_vectors = ("gradient",)
    plain_sgd = True
    beta: float = field(default=0.1, metadata={"min": 0, "below": 1})

    @property
    def requires(self) -> frozenset[str]:
        return frozenset({"full_gradient"})

    def init_server(self, w: Tensor, fed: Fed) -> State:
        return {"w": w, "m": torch.zeros_like(w)}

    def extra_up(self, fed: Fed) -> int:
        return fed.layout.size

    def local(self, jobs: Jobs, w: Tensor, epoch: int, fed: Fed) -> LocalRule:
        if self.beta == 0:
            return LocalRule()
        return LocalRule(scale=1 - self.beta, drift=self.beta * jobs.server["m"])  # Alg. 1 with Table 1 (SGDm)

    def upload(self, jobs: Jobs, trained: Trained, fed: Fed) -> Upload:
        assert trained.full_gradient is not None
        return Upload(trained.end - jobs.received, extra={"gradient": trained.full_gradient})

    def aggregate(self, server: State, updates: Updates, fed: Fed) -> State:
        w = server["w"] + updates.weight @ updates.delta  # Alg. 1
        m = (1 - self.beta) * updates.extra["gradient"].mean(0) + self.beta * server["m"]  # Alg. 1
        return {**server, "w": w, "m": m}

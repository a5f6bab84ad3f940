"""Stochastic controlled averaging."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.base import Algorithm, Fed, Jobs, LocalRule, State, Trained, Updates, Upload


@dataclass(frozen=True, kw_only=True)
class SCAFFOLD(Algorithm):
    """Stochastic controlled averaging: control variates correct the drift of the devices.

    Karimireddy, Kale, Mohri, Reddi, Stich, Suresh: SCAFFOLD: Stochastic Controlled Averaging for Federated Learning.
    ICML 2020. Option II for the devices' control variates.

    Deviations: `c` is FedLGA's "local variance control", which SCAFFOLD's paper does not have: a factor on the
    correction in the local step. The control variate stays an estimate of the mean gradient whatever the factor, and
    c = 1 is the paper. K eta is the sum of the rates of the steps really taken; with momentum or weight decay the
    quotient is the mean step, no longer the mean gradient. A device drawn twice in a round
    counts twice in the model and once in c, so that c remains the mean of the c_i.
    """

    broadcast: ClassVar[tuple[str, ...]] = ("w", "c")
    extra_vectors = ("c",)
    plain_sgd = True
    eta_g: float = field(default=1.0, metadata={"above": 0})
    c: float = field(default=1.0, metadata={"min": 0})

    def init_server(self, w: Tensor, fed: Fed) -> State:
        return {"w": w, "c": torch.zeros_like(w)}

    def init_client(self, w: Tensor, fed: Fed) -> State:
        return {"c": torch.zeros_like(w)}

    def extra_up(self, fed: Fed) -> int:
        return fed.layout.size

    def local(self, jobs: Jobs, w: Tensor, epoch: int, fed: Fed) -> LocalRule:
        if self.c == 0:
            return LocalRule()
        return LocalRule(drift=self.c * (jobs.server["c"] - jobs.memory["c"]))  # Alg. 1, l. 10

    def upload(self, jobs: Jobs, trained: Trained, fed: Fed) -> Upload:
        delta = trained.end - jobs.received
        drift = self.c * (jobs.server["c"] - jobs.memory["c"])
        c_plus = -drift - delta / trained.lr_sum[:, None]  # Alg. 1, l. 12, option II
        return Upload(delta, extra={"c": c_plus - jobs.memory["c"]}, memory={"c": c_plus})

    def aggregate(self, server: State, updates: Updates, fed: Fed) -> State:
        w = server["w"] + self.eta_g * (updates.weight @ updates.delta)  # Alg. 1, l. 16-17
        return {**server, "w": w, "c": server["c"] + updates.extra["c"].sum(0) / fed.clients}

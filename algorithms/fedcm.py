"""Client-level momentum."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.base import Algorithm, Fed, Jobs, LocalRule, State, Updates


@dataclass(frozen=True, kw_only=True)
class FedCM(Algorithm):
    """Client-level momentum: every local step mixes in the direction in which the server last moved.

    Xu, Wang, Wang, Yao: FedCM: Federated Learning with Client-level Momentum. arXiv 2106.10874, 2021.

    Deviations: `a` is the paper's alpha (and what FedLGA calls momentum beta). K eta_l is the sum of the rates of the
    steps really taken. Without eta_g the server adds the mean update, which is the paper's step for
    eta_g = eta_l K when all devices take K steps. Means follow the run's `weighting`.
    """

    broadcast: ClassVar[tuple[str, ...]] = ("w", "Delta")
    plain_sgd = True
    a: float = field(default=0.1, metadata={"above": 0, "max": 1})
    eta_g: float | None = field(default=None, metadata={"above": 0})

    def init_server(self, w: Tensor, fed: Fed) -> State:
        return {"w": w, "Delta": torch.zeros_like(w)}

    def local(self, jobs: Jobs, w: Tensor, epoch: int, fed: Fed) -> LocalRule:
        if self.a == 1:
            return LocalRule()
        return LocalRule(scale=self.a, drift=(1 - self.a) * jobs.server["Delta"])  # Alg. 2

    def aggregate(self, server: State, updates: Updates, fed: Fed) -> State:
        delta = -(updates.weight / updates.lr_sum) @ updates.delta  # Alg. 2
        step = updates.weight @ updates.delta if self.eta_g is None else -self.eta_g * delta  # Alg. 2
        return {**server, "w": server["w"] + step, "Delta": delta}

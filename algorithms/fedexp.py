"""Averaging with a server step that is extrapolated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.base import Algorithm, Fed, State, Updates
from algorithms.views import Clients


@dataclass(frozen=True, kw_only=True)
class FedExP(Algorithm):
    """Averaging by extrapolation: the more the devices disagree, the longer the server's step along their mean.

    Jhunjhunwala, Wang, Joshi: FedExP: Speeding Up Federated Averaging via Extrapolation. ICLR 2023.

    Deviations: sums over devices are by the run's weights (weighting=uniform is the paper's 1/M). As in the paper the
    mean of the last two models is what is evaluated.
    """

    cacheable: ClassVar[bool] = True
    epsilon: float = field(default=0.001, metadata={"min": 0})

    def init_server(self, w: Tensor, fed: Fed) -> State:
        return {"w": w, "last": w, "eta_g": w.new_ones(())}

    def aggregate(self, server: State, updates: Updates, fed: Fed) -> State:
        mean = updates.weight @ updates.delta
        spread = updates.weight @ updates.delta.square().sum(1)
        eta_g = (spread / (2 * (mean.square().sum() + self.epsilon))).nan_to_num(1.0).clamp(min=1.0)  # Eq. (9)
        return {**server, "w": server["w"] + eta_g * mean, "last": server["w"], "eta_g": eta_g}

    def deployed(self, server: State, clients: Clients, fed: Fed) -> Tensor:
        return torch.lerp(server["last"], server["w"], 0.5)

    def report(self, server: State, fed: Fed) -> dict[str, float]:
        return {"eta_g": float(server["eta_g"])}

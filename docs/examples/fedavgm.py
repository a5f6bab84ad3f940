"""An algorithm of your own: one class in one file.

python bench.py -m algo=fedavg,docs/examples/fedavgm.py seed=0,1
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from algorithms.base import Algorithm, Fed, State, Updates


@dataclass(frozen=True, kw_only=True)
class FedAvgM(Algorithm):
    """FedAvgM: FedAvg with momentum on the server.

    Hsu, Qi, Brown: Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification.
    arXiv:1909.06335, 2019.

    Deviations: none in the update, v <- beta v + dw, w <- w - v; dw is minus the mean of our deltas.
    """

    beta: float = 0.9

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1:
            raise ValueError(f"algo.beta must be at least 0 and below 1, not {self.beta}")

    def init_server(self, w: Tensor, fed: Fed) -> State:
        """Devices download what `broadcast` names, by default w alone: v stays on the server."""
        return {"w": w, "v": torch.zeros_like(w)}

    def aggregate(self, server: State, updates: Updates, fed: Fed) -> State:
        v = self.beta * server["v"] + updates.weight @ updates.delta  # weight [K] sums to one, delta is [K, P]
        return {"w": server["w"] + v, "v": v}

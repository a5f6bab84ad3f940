"""Adaptive optimisers on the server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.base import Algorithm, Fed, State, Updates


@dataclass(frozen=True, kw_only=True)
class _FedOpt(Algorithm):
    """Alg. 2 of the paper; the methods differ in v."""

    cacheable: ClassVar[bool] = True
    eta_s: float = field(default=0.03, metadata={"above": 0})  # the paper's eta
    beta1: float = field(default=0.9, metadata={"min": 0, "below": 1})
    beta2: float = field(default=0.99, metadata={"min": 0, "below": 1})
    tau: float = field(default=0.001, metadata={"above": 0})

    def init_server(self, w: Tensor, fed: Fed) -> State:
        return {"w": w, "m": torch.zeros_like(w), "v": torch.full_like(w, self.tau**2)}

    def second(self, v: Tensor, d: Tensor) -> Tensor:
        raise NotImplementedError

    def aggregate(self, server: State, updates: Updates, fed: Fed) -> State:
        d = updates.weight @ updates.delta  # Alg. 2
        m = self.beta1 * server["m"] + (1 - self.beta1) * d  # Alg. 2
        v = self.second(server["v"], d)
        return {**server, "w": server["w"] + self.eta_s * m / (v.sqrt() + self.tau), "m": m, "v": v}  # Alg. 2


@dataclass(frozen=True, kw_only=True)
class FedAdam(_FedOpt):
    """Adam on the server: the mean update is its gradient.

    Reddi, Charles, Zaheer, Garrett, Rush, Konečný, Kumar, McMahan: Adaptive Federated Optimization. ICLR 2021.

    Deviations: none; no bias correction, as in the paper. v starts at tau^2, the least the paper allows. Means follow
    the run's `weighting`.
    """

    def second(self, v: Tensor, d: Tensor) -> Tensor:
        return self.beta2 * v + (1 - self.beta2) * d**2  # Alg. 2


@dataclass(frozen=True, kw_only=True)
class FedYogi(_FedOpt):
    """Yogi on the server: as FedAdam, but v moves by a step that does not grow with the distance.

    Reddi, Charles, Zaheer, Garrett, Rush, Konečný, Kumar, McMahan: Adaptive Federated Optimization. ICLR 2021.

    Deviations: none; see FedAdam.
    """

    def second(self, v: Tensor, d: Tensor) -> Tensor:
        return v - (1 - self.beta2) * d**2 * torch.sign(v - d**2)  # Alg. 2


@dataclass(frozen=True, kw_only=True)
class FedAdagrad(_FedOpt):
    """Adagrad on the server: v sums the squares of all updates.

    Reddi, Charles, Zaheer, Garrett, Rush, Konečný, Kumar, McMahan: Adaptive Federated Optimization. ICLR 2021.

    Deviations: none; see FedAdam. beta1 = 0 is the paper's, and beta2, an input of its Alg. 2 for all three methods,
    has no effect here.
    """

    beta1: float = field(default=0.0, metadata={"min": 0, "below": 1})

    def second(self, v: Tensor, d: Tensor) -> Tensor:
        return v + d**2  # Alg. 2

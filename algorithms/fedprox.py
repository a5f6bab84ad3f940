"""FedAvg with a proximal term."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from algorithms.base import Algorithm, Fed, Jobs, LocalRule


@dataclass(frozen=True, kw_only=True)
class FedProx(Algorithm):
    """FedAvg with a proximal term: every local step also pulls towards the received model.

    Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: Federated Optimization in Heterogeneous Networks. MLSys 2020.

    Deviations: none. The term is (mu/2) |w - w_t|^2 (squared), so its gradient is mu (w - w_t); devices that could
    not finish send what they have.
    """

    cacheable: ClassVar[bool] = True
    mu: float = field(default=0.01, metadata={"min": 0})

    def local(self, jobs: Jobs, w: Tensor, epoch: int, fed: Fed) -> LocalRule:
        return LocalRule(prox=self.mu)  # Eq. (2)

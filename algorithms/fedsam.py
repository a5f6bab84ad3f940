"""Sharpness-aware local steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from algorithms.base import Algorithm, Fed, Jobs, LocalRule


@dataclass(frozen=True, kw_only=True)
class FedSAM(Algorithm):
    """Sharpness-aware local steps: the gradient is taken at the worst point nearby.

    Qu, Li, Duan, Liu, Tang, Lu: Generalized Federated Learning via Sharpness Aware Minimization. ICML 2022.

    Deviations: none; `r` is the paper's rho, the norm is over all parameters, and both gradients of a step come from
    the same mini-batch. Each step costs two gradient evaluations, and gradient_evaluations counts both.
    """

    cacheable: ClassVar[bool] = True
    r: float = field(default=0.1, metadata={"min": 0})

    def local(self, jobs: Jobs, w: Tensor, epoch: int, fed: Fed) -> LocalRule:
        return LocalRule(sam=self.r)  # Alg. 1

"""Normalised averaging."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from algorithms.base import Algorithm, Fed, Jobs, LocalRule, State, Updates


@dataclass(frozen=True, kw_only=True)
class FedNova(Algorithm):
    """Normalised averaging: devices that took more local steps do not count more.

    Wang, Liu, Liang, Joshi, Poor: Tackling the Objective Inconsistency Problem in Heterogeneous Federated
    Optimization. NeurIPS 2020.

    Deviations: none from the authors' code; with the proximal term (mu > 0) it takes tau_eff = sum p_i K_i where the
    paper has sum p_i |a_i|. |a_i|_1 follows the steps really taken, the run's momentum and mu; weight decay is left
    out of it.
    """

    plain_sgd = True
    mu: float = field(default=0.0, metadata={"min": 0})

    def local(self, jobs: Jobs, w: Tensor, epoch: int, fed: Fed) -> LocalRule:
        return LocalRule(prox=self.mu)

    def aggregate(self, server: State, updates: Updates, fed: Fed) -> State:
        a = updates.effective_steps
        tau_eff = updates.weight @ (updates.steps if self.mu else a)
        return {
            **server,
            "w": server["w"] + (tau_eff * updates.weight / a) @ updates.delta,
        }  # Sec. 4: tau_eff d_i, d_i = delta_i / |a_i|

"""Dynamic regularisation."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from algorithms.base import Algorithm, Fed, Jobs, LocalRule, State, Trained, Updates, Upload


@dataclass(frozen=True, kw_only=True)
class FedDyn(Algorithm):
    """Dynamic regularisation: each device's regulariser is shifted so that its optimum becomes the common one.

    Acar, Zhao, Matas Navarro, Mattina, Whatmough, Saligrama: Federated Learning Based on Dynamic Regularization.
    ICLR 2021.

    Deviations: the local problem is not solved exactly but by the run's local steps, and h_i follows the
    regulariser's own gradient, h_i - alpha (w_i - w), as in the authors' code. The mean of the models follows the
    run's `weighting` (the paper has 1 / |P|). A device drawn twice counts twice in that mean and once in h. What is
    evaluated is the server's model.
    """

    plain_sgd = True
    alpha: float = field(default=0.01, metadata={"above": 0})

    def init_server(self, w: Tensor, fed: Fed) -> State:
        return {"w": w, "h": torch.zeros_like(w)}

    def init_client(self, w: Tensor, fed: Fed) -> State:
        return {"h": torch.zeros_like(w)}  # the paper's gradient of L_i at its last model

    def local(self, jobs: Jobs, w: Tensor, epoch: int, fed: Fed) -> LocalRule:
        return LocalRule(prox=self.alpha, drift=-jobs.memory["h"])  # Eq. (1)

    def upload(self, jobs: Jobs, trained: Trained, fed: Fed) -> Upload:
        delta = trained.end - jobs.received
        return Upload(delta, memory={"h": jobs.memory["h"] - self.alpha * delta})  # Alg. 1

    def aggregate(self, server: State, updates: Updates, fed: Fed) -> State:
        h = server["h"] - self.alpha / fed.clients * updates.delta.sum(0)  # Alg. 1
        return {**server, "w": updates.weight @ updates.model - h / self.alpha, "h": h}  # Alg. 1

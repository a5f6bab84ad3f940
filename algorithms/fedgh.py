"""A global header trained on class means."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.base import Algorithm, Fed, Jobs, State, Trained, Updates, Upload
from algorithms.ops import body
from algorithms.views import Clients


@dataclass(frozen=True, kw_only=True)
class FedGH(Algorithm):
    """A global header trained on class means: bodies stay on the devices, the server trains the head they share.

    Yi, Wang, Liu, Shi, Yu: FedGH: Heterogeneous Federated Learning with Generalized Global Header. ACM MM 2023.

    Deviations: all devices have the same architecture here. The authors' code takes one step for each (mean, class)
    pair, device after device, and gives its optimiser another network's parameters, so that the header is never
    trained; here `steps` full-batch steps on all pairs of the round (None: as many as there are pairs), which depend
    on no order; a device drawn twice gives its pairs twice. Traffic counts the mean and count of every class, held or
    not, as many numbers as a linear header has. What is evaluated is the mean over all devices of own body and global
    header.
    """

    personal: ClassVar[str] = "body"
    eta_theta: float | None = field(default=None, metadata={"above": 0})  # the header's rate; None: the run's
    steps: int | None = field(default=None, metadata={"min": 1, "max": 100_000})

    @property
    def needs_classes(self) -> str:
        return "its prototypes are means of each class; fedbabu keeps a part of the model on the device, too"

    @property
    def requires(self) -> frozenset[str]:
        return frozenset({"prototypes"})

    def sends(self, version: int, fed: Fed) -> Tensor:
        return torch.zeros_like(fed.layout.head)  # no part of the model

    def extra_up(self, fed: Fed) -> int:
        return int((~body(fed)).sum())

    def upload(self, jobs: Jobs, trained: Trained, fed: Fed) -> Upload:
        assert trained.prototypes is not None and trained.counts is not None
        extra = {"means": trained.prototypes, "counts": trained.counts}  # Alg. 1
        return Upload(trained.end - jobs.received, extra=extra)

    def aggregate(self, server: State, updates: Updates, fed: Fed) -> State:
        drawn = torch.repeat_interleave(updates.count.long())  # the header counts a device as any model does
        device, label = updates.extra["counts"][drawn].nonzero(as_tuple=True)
        steps = len(label) if self.steps is None else self.steps
        rate = fed.lr if self.eta_theta is None else self.eta_theta
        w = fed.fit_head(server["w"], updates.extra["means"][drawn[device], label], label, steps, rate)  # Alg. 1
        return {**server, "w": w}

    def deployed(self, server: State, clients: Clients, fed: Fed) -> Tensor:
        own = body(fed)
        return torch.where(own, clients.rows("w"), server["w"]) if own.any() else server["w"]

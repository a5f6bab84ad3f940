"""Communication-efficient asynchronous federated learning."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from algorithms.base import Algorithm, Fed, Schedule


@dataclass(frozen=True, kw_only=True)
class CE_AFL(Algorithm):
    """Communication-efficient asynchronous learning: the server aggregates once a share alpha of all devices is in.

    Liu, Xu, Xu, Ma, Wang, Qian, Huang: Communication-efficient asynchronous federated learning in
    resource-constrained edge computing. Computer Networks 199, 2021.

    Deviations: alpha is fixed, as in FedLC's comparison (Sec. 5.1.3); its own paper adapts it. The devices' changes
    are added, not their models averaged, so that a late device does not bring back the model it started from.
    """

    alpha: float = field(default=0.5, metadata={"above": 0, "max": 1})

    def schedule(self, fed: Fed) -> Schedule:
        return Schedule(fed.clients, max(1, math.ceil(self.alpha * fed.clients - 1e-9)))

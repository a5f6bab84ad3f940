"""What federation costs and gains: the same training with all data in one place, and with no exchange at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from algorithms.base import Algorithm, Fed, State
from algorithms.views import Clients


@dataclass(frozen=True, kw_only=True)
class Local_Only(Algorithm):
    """Every device alone: nothing is exchanged, and the devices' own models are evaluated, in the mean.

    A reference, not a method: what federation gains. A round trains the devices that are drawn, as any method's does.

    Deviations: none.
    """

    personal: ClassVar[str] = "all"

    def deployed(self, server: State, clients: Clients, fed: Fed) -> Tensor:
        return clients.rows("w")


@dataclass(frozen=True, kw_only=True)
class Centralised(Local_Only):
    """All training data on one device: what federation costs.

    A reference, not a method: `clients` and `partition` say which samples there are, `cohort` says nothing. A round is
    `epochs` passes over them (or as many mini-batches): what all devices train when everybody takes part.

    Deviations: none.
    """

    pooled: ClassVar[bool] = True

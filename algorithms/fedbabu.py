"""Body aggregation and body update."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from algorithms.base import Algorithm, Fed, Jobs, LocalRule, State
from algorithms.ops import body


@dataclass(frozen=True, kw_only=True)
class FedBABU(Algorithm):
    """Body aggregation and body update: the head stays at its shared random start and is fine-tuned at the end.

    Oh, Kim, Yun: FedBABU: Toward Enhanced Representation for Federated Image Classification. ICLR 2022.

    Deviations: none. Not even weight decay moves the head. What is evaluated is the one global model, before
    fine-tuning; a device's personal accuracy comes after tau_f epochs on the head alone.
    """

    cacheable: ClassVar[bool] = True
    tau_f: int = field(default=5, metadata={"min": 1})  # epochs of fine-tuning

    def init_server(self, w: Tensor, fed: Fed) -> State:
        if not body(fed).any():
            raise ValueError("fedbabu trains the body of a model and needs one with layers before its head")
        return {"w": w}

    def sends(self, version: int, fed: Fed) -> Tensor:
        return ~fed.layout.head

    def local(self, jobs: Jobs, w: Tensor, epoch: int, fed: Fed) -> LocalRule:
        return LocalRule(mask=body(fed))  # Alg. 1, ClientBodyUpdate

    def personal_rule(self, fed: Fed) -> tuple[LocalRule, int]:
        return LocalRule(mask=~body(fed)), self.tau_f

"""FedLC with a rate by participation, and FedLC over links that lose messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from algorithms.base import Fed, State
from algorithms.fedlc import FedLC


@dataclass(frozen=True, kw_only=True)
class SC_FedLC(FedLC):
    """Staleness-compensated FedLC: the rarer a device returns, the larger its rate.

    Xu, Ma, Xu, Chen, Liu, Xue: FedLC: Accelerating Asynchronous Federated Learning in Edge Computing. IEEE TMC, 2024.

    Deviations: those of FedLC. Theorem 1's rate is clamped first, then divided by N r_i; r_i counts the upload just
    aggregated, so that the division applies from a device's first return.
    """

    def _rate(self, i: int, new: State, fed: Fed) -> Tensor | float:
        r_i = new["t"][i] / new["t"].sum()
        return super()._rate(i, new, fed) / (fed.clients * r_i)  # Eq. (44)


@dataclass(frozen=True, kw_only=True)
class FedLC_T(FedLC):
    """FedLC with timeout retransmission: a lost upload is sent again until it arrives.

    Xu, Ma, Xu, Chen, Liu, Xue: FedLC: Accelerating Asynchronous Federated Learning in Edge Computing. IEEE TMC, 2024.

    Deviations: those of FedLC. The retransmission timeout, Eq. (45), is the clock's.
    """

    retransmit: ClassVar[bool] = True

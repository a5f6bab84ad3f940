"""Federated averaging."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from algorithms.base import Algorithm


@dataclass(frozen=True, kw_only=True)
class FedAvg(Algorithm):
    """Federated averaging: the weighted mean of what the devices trained.

    McMahan, Moore, Ramage, Hampson, Agüera y Arcas: Communication-Efficient Learning of Deep Networks from
    Decentralized Data. AISTATS 2017.

    Deviations: none. The weights follow the run's `weighting` key: n_i / sum n, or 1 / K.
    """

    cacheable: ClassVar[bool] = True

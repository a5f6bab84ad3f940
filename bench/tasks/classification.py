from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from bench.metrics import ACCURACY, Metric
from bench.tasks.base import Task


@dataclass(frozen=True, kw_only=True)
class Classification(Task):
    """Which class is it? Cross-entropy of one logit a class, judged by the share of right answers."""

    metric: ClassVar[Metric] = ACCURACY
    targets: ClassVar[Mapping[str, float]] = {"above": 0, "below": 1}
    cross_entropy: ClassVar[bool] = True

    def loss(self, outputs: Tensor, y: Tensor, reduction: str = "none") -> Tensor:
        return nn.functional.cross_entropy(outputs, y, reduction=reduction)

    def score(self, outputs: Tensor, y: Tensor) -> Tensor:
        return outputs.argmax(1) == y

    def blind(self, y: Tensor) -> tuple[str, Tensor]:
        return "the most frequent class", torch.unique(y, return_counts=True)[1].max() / len(y)

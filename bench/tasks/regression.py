from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from bench.metrics import Metric
from bench.tasks.base import Task


@dataclass(frozen=True, kw_only=True)
class Regression(Task):
    """How much is it? Squared error of one output, judged by its root mean in the labels' own unit."""

    metric: ClassVar[Metric] = Metric("rmse", "RMSE", higher=False)
    targets: ClassVar[Mapping[str, float]] = {"above": 0}
    by_class: ClassVar[bool] = False

    def loss(self, outputs: Tensor, y: Tensor, reduction: str = "none") -> Tensor:
        return nn.functional.mse_loss(outputs[:, 0], y.to(outputs.dtype), reduction=reduction)

    def score(self, outputs: Tensor, y: Tensor) -> Tensor:
        return (outputs[:, 0].double() - y) ** 2

    def value(self, mean: Tensor, unit: float) -> Tensor:
        return mean.sqrt() * unit

    def blind(self, y: Tensor) -> tuple[str, Tensor]:
        return "the mean", y.double().var(correction=0)

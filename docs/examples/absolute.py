"""A task of your own: one class in one file.

python bench.py dataset=diabetes task=docs/examples/absolute.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from bench.metrics import Metric
from bench.tasks.base import Task


@dataclass(frozen=True, kw_only=True)
class Absolute(Task):
    """How much is it? Absolute error, of which outliers count for less than of the squared one."""

    metric: ClassVar[Metric] = Metric("mae", "mean absolute error", higher=False)
    targets: ClassVar[Mapping[str, float]] = {"above": 0}  # what target= may be
    by_class: ClassVar[bool] = False  # labels are real numbers, and a model has one output

    def loss(self, outputs: Tensor, y: Tensor, reduction: str = "none") -> Tensor:
        """What devices minimise: of each sample, or their sum or mean, as in torch."""
        return nn.functional.l1_loss(outputs[:, 0], y.to(outputs.dtype), reduction=reduction)

    def score(self, outputs: Tensor, y: Tensor) -> Tensor:
        """What the metric is made of: of each sample."""
        return (outputs[:, 0].double() - y).abs()

    def value(self, mean: Tensor, unit: float) -> Tensor:
        """The metric, of the mean of the scores; a label's 1 is `unit` in the data's own unit."""
        return mean * unit

    def blind(self, y: Tensor) -> tuple[str, Tensor]:
        """What a target is seen beside: the best answer that is the same for all samples, and its mean score."""
        return "the median", (y - y.median()).double().abs().mean()

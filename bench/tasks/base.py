"""What a task is: the loss that devices minimise, and the metric by which what they learned is judged.

A new task is one new file in this folder with a subclass of `Task`; its name in lower case is its CLI name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from bench.metrics import Metric


@dataclass(frozen=True, kw_only=True)
class Task:
    """Outputs are what a network answers, [B, classes], or [B, 1] where labels are real numbers; y [B] the labels.

    Fields are what a user may choose (`task.delta=2`), with bounds in their metadata.
    """

    metric: ClassVar[Metric]
    targets: ClassVar[Mapping[str, float]] = {}  # bounds of `target`, as in a field's metadata
    by_class: ClassVar[bool] = True  # labels are numbers of classes; False: real numbers
    cross_entropy: ClassVar[bool] = False  # the loss is that of the outputs: engines need not ask autograd

    def loss(self, outputs: Tensor, y: Tensor, reduction: str = "none") -> Tensor:
        """[B], of each sample; their "sum" or "mean", as in torch."""
        raise NotImplementedError

    def score(self, outputs: Tensor, y: Tensor) -> Tensor:
        """[B], of each sample: what the metric is made of, by way of its mean over the test samples."""
        raise NotImplementedError

    def value(self, mean: Tensor, unit: float) -> Tensor:
        """The metric, of the mean of scores. A model sees labels in units of `unit` (`Loaded.y_std`)."""
        return mean

    def blind(self, y: Tensor) -> tuple[str, Tensor] | None:
        """The best answer that is the same for all samples, in words, and its mean score: what a target is seen beside.
        None: nothing is said of it."""
        return None

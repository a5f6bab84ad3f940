from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bench.metrics import Metric
from bench.tasks.classification import Classification


@dataclass(frozen=True, kw_only=True)
class NextCharacter(Classification):
    """Which character comes next? Cross-entropy of one logit a character, judged in bits per character."""

    metric: ClassVar[Metric] = Metric("bits", "bits per character", higher=False)
    targets: ClassVar[Mapping[str, float]] = {"above": 0}

    def score(self, outputs: Tensor, y: Tensor) -> Tensor:
        return self.loss(outputs, y).double() / math.log(2)

    def blind(self, y: Tensor) -> tuple[str, Tensor]:
        share = torch.unique(y, return_counts=True)[1].double() / len(y)
        return "how frequent each character is", -(share * share.log2()).sum()

"""LocalModule: what a device trains, as a LightningModule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import datamodules._ops  # noqa: F401  # before Lightning

# isort: split
import pytorch_lightning as pl
from torch import Tensor, nn

from bench.batches import Batch


class LocalModule(pl.LightningModule):
    """A classifier with one cross-entropy per sample; the optimiser belongs to the federated method."""

    classifier = True  # the loss is the cross-entropy of `net`: engines need not ask autograd

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(x)
        return logits

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y, reduction="none")


def local_module(model: Mapping[str, Any], net: nn.Module) -> nn.Module:
    """The user's own LightningModule as it is, any other network inside a LocalModule."""
    return net if model["name"] == "custom" else LocalModule(net)

"""LocalModule: what a device trains, as a LightningModule."""

from __future__ import annotations

import datamodules._ops  # noqa: F401  # before Lightning

# isort: split
import pytorch_lightning as pl
from torch import Tensor, nn

from bench.batches import Batch


class LocalModule(pl.LightningModule):
    """A classifier with one cross-entropy per sample; the optimiser belongs to the federated method."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(x)
        return logits

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y, reduction="none")

"""A model of your own: any LightningModule whose training_step returns a loss, here for tables of numbers.

python bench.py dataset=docs/examples/cancer.py model=custom model.target=docs/examples/tabular.py:TabularNet
"""

from __future__ import annotations

import math

import pytorch_lightning as pl
import torch
from torch import Tensor, nn


class TabularNet(pl.LightningModule):
    """`shape` (of one input) and `classes` are the data set's; other arguments come from model.args."""

    def __init__(self, shape: tuple[int, ...], classes: int, hidden: int = 32, dropout: float = 0.1) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Flatten(),
            nn.Linear(math.prod(shape), hidden),
            nn.GroupNorm(4, hidden),  # not BatchNorm: its running statistics cannot be averaged over devices
            nn.ReLU(),
            nn.Dropout(dropout),
        )
        self.last = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits: what the benchmark evaluates."""
        return self.last(self.body(x))

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        logits = self(x)
        self.log("train_accuracy", (logits.argmax(1) == y).float().mean(), prog_bar=True)
        return nn.functional.cross_entropy(logits, y, label_smoothing=0.05)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Plain SGD: lr, momentum and weight_decay become defaults of the run."""
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)

"""A Lightning Trainer for one device; a file of its own, since Lightning is slow to import."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator

import datamodules._torchvision  # noqa: F401  # before Lightning

# isort: split
import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from bench.learning.batches import Batch
from bench.learning.module import LocalModule
from bench.speed.work import LR, Data


class _Local(pl.LightningModule):
    def __init__(self, inner: LocalModule) -> None:
        super().__init__()
        self.inner = inner

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        return nn.functional.cross_entropy(self.inner(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=LR)


class _Shuffled:
    """Batches of one pass over the device's samples."""

    def __init__(self, x: Tensor, y: Tensor, batch_size: int) -> None:
        self.x, self.y, self.batch_size = x, y, batch_size

    def __len__(self) -> int:
        return -(-len(self.y) // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        for index in torch.split(torch.randperm(len(self.y)), self.batch_size):
            yield Data.inputs(self.x[index]), self.y[index]


def fit(module: LocalModule, x: Tensor, y: Tensor, batch_size: int, epochs: int) -> None:
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = pl.Trainer(max_epochs=epochs, accelerator="cpu", devices=1, barebones=True)
        trainer.fit(_Local(module), _Shuffled(x, y, batch_size))

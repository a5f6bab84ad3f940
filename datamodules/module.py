"""The same data and clients for use with plain Lightning (the benchmark itself reads `Dataset` and `Partition`)."""

from __future__ import annotations

import datamodules._torchvision  # noqa: F401  # isort: skip  (before Lightning)
from functools import cached_property

import numpy as np
import torch
from pytorch_lightning import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader, Subset, TensorDataset

from datamodules.base import Dataset, Loaded, Split
from datamodules.partition import Indices, Partition
from datamodules.samples import Samples

Tensors = tuple[Tensor, ...]


class FederatedData(LightningDataModule):
    """`seed` may be a generator, e.g. a benchmark's partition stream, which gives the clients of that benchmark."""

    def __init__(
        self,
        dataset: Dataset,
        partition: Partition,
        *,
        clients: int,
        batch_size: int = 10,
        normalise: bool = False,
        seed: int | np.random.Generator = 0,
    ) -> None:
        super().__init__()
        self.dataset, self.partition = dataset, partition
        self.clients, self.batch_size, self.normalise, self.seed = clients, batch_size, normalise, seed
        self._augmentation = np.random.default_rng(seed).spawn(1)[0]

    @cached_property
    def data(self) -> Loaded:
        return self.dataset.load()

    @cached_property
    def parts(self) -> list[Indices]:
        """The training samples of each client."""
        samples = Samples.of(self.data, type(self.dataset).__name__.lower())
        return self.partition.split(samples, self.clients, np.random.default_rng(self.seed))

    def setup(self, stage: str | None = None) -> None:
        """Load and deal now rather than at first use, so that errors come before training."""
        _ = self.parts

    def client_dataloader(self, client: int) -> DataLoader[Tensors]:
        return self._loader(self.data.train, self.parts[client], shuffle=True)

    def train_dataloader(self) -> DataLoader[Tensors]:
        """All clients' samples together."""
        return self._loader(self.data.train, np.concatenate(self.parts), shuffle=True)

    def val_dataloader(self) -> DataLoader[Tensors]:
        return self.test_dataloader()

    def test_dataloader(self) -> DataLoader[Tensors]:
        return self._loader(self.data.test, np.arange(len(self.data.test)), shuffle=False)

    def _loader(self, split: Split, rows: Indices, shuffle: bool) -> DataLoader[Tensors]:
        subset = Subset(TensorDataset(split.x, self.data.labels(split)), rows.tolist())
        collate = self._training_batch if shuffle else self._batch
        return DataLoader(subset, self.batch_size, shuffle=shuffle, collate_fn=collate)

    def _training_batch(self, samples: list[Tensors]) -> Tensors:
        x, y = (torch.stack(column) for column in zip(*samples, strict=True))
        return self.data.inputs(self.data.augment(x, self._augmentation), self.normalise), y

    def _batch(self, samples: list[Tensors]) -> Tensors:
        x, y = (torch.stack(column) for column in zip(*samples, strict=True))
        return self.data.inputs(x, self.normalise), y

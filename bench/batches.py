"""Which samples a device sees in which step: one answer for every engine and every method."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from bench.seeding import stream

Batch = tuple[Tensor, Tensor]


class Batches:
    """Each dispatch of a device shuffles its samples anew from the stream (seed, "batches", client, dispatch)."""

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        clients: Sequence[np.ndarray],
        inputs: Callable[[Tensor], Tensor],
        augment: Callable[[Tensor, np.random.Generator], Tensor] | None = None,
        *,
        batch_size: int,
        classes: int,
        seed: int,
        local_unit: str = "epoch",
    ) -> None:
        self.x, self.y, self.inputs, self.augment = x, y, inputs, augment
        self.clients = [torch.from_numpy(np.asarray(c, dtype=np.int64)).to(x.device) for c in clients]
        self.batch_size, self.classes, self.seed, self.by_step = batch_size, classes, seed, local_unit == "step"

    def steps_per_epoch(self, client: int) -> int:
        return 1 if self.by_step else self.passes(client)

    def passes(self, client: int) -> int:
        """Mini-batches in one pass over a device's samples."""
        return -(-len(self.clients[client]) // self.batch_size)

    def epochs(self, client: int, dispatch: int, epochs: int) -> list[list[Tensor]]:
        """Per local epoch the sample numbers of each batch; with local_unit=step an epoch is the next batch."""
        rng, mine = stream(self.seed, "batches", client, dispatch), self.clients[client]

        def shuffled() -> list[Tensor]:
            order = torch.from_numpy(rng.permutation(len(mine))).to(mine.device)
            return list(torch.split(mine[order], self.batch_size))

        if not self.by_step:
            return [shuffled() for _ in range(epochs)]
        batches: list[Tensor] = []
        while len(batches) < epochs:
            batches += shuffled()
        return [[batch] for batch in batches[:epochs]]

    def shortened(self, clients: Sequence[int], steps: int) -> Batches:
        """A copy in which these devices have only so many mini-batches."""
        short = copy.copy(self)
        short.clients = list(self.clients)
        for client in clients:
            short.clients[client] = self.clients[client][: steps * self.batch_size]
        return short

    def labels(self, client: int) -> Tensor:
        """The classes a device holds."""
        return torch.as_tensor(torch.unique(self.y[self.clients[client]]))

    def whole(self, client: int) -> list[Tensor]:
        """All of a device's samples in order, in batches."""
        return list(torch.split(self.clients[client], max(self.batch_size, 256)))

    def augmentation(self, client: int, dispatch: int) -> np.random.Generator | None:
        """What `load` draws from, batch by batch of a dispatch; None: the data set does not augment."""
        return stream(self.seed, "augmentation", client, dispatch) if self.augment else None

    def load(self, index: Tensor, augmentation: np.random.Generator | None = None) -> Batch:
        x = self.x.index_select(0, index)
        if self.augment is not None and augmentation is not None:
            x = self.augment(x, augmentation)
        return self.inputs(x), self.y.index_select(0, index)

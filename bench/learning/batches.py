"""Which samples a device sees in which step: one answer for every engine and every method."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import overload

import numpy as np
import torch
from torch import Tensor

from bench.seeding import shuffles, stream

Batch = tuple[Tensor, Tensor]


class Pass:
    """The steps of one local epoch: `order` are the sample numbers, cut into batches of `size` when asked for."""

    __slots__ = ("device", "order", "size", "steps")

    def __init__(self, order: np.ndarray, size: int, device: torch.device) -> None:
        self.order, self.size, self.device, self.steps = order, size, device, -(-len(order) // size)

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, step: int) -> Tensor:
        if not 0 <= step < len(self):
            raise IndexError(step)
        return torch.from_numpy(self.order[step * self.size : (step + 1) * self.size]).to(self.device)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[step] for step in range(len(self)))


class _Tensors(Sequence[Tensor]):
    """Arrays as tensors, made when asked for: each takes several times the memory of a device's sample numbers."""

    def __init__(self, arrays: Sequence[np.ndarray], device: torch.device) -> None:
        self._arrays, self._device = arrays, device

    def __len__(self) -> int:
        return len(self._arrays)

    @overload
    def __getitem__(self, k: int) -> Tensor: ...
    @overload
    def __getitem__(self, k: slice) -> Sequence[Tensor]: ...
    def __getitem__(self, k: int | slice) -> Tensor | Sequence[Tensor]:
        if isinstance(k, slice):
            return _Tensors(self._arrays[k], self._device)
        return torch.from_numpy(self._arrays[k]).to(self._device)


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
        self.samples = [np.asarray(c, dtype=np.int64) for c in clients]
        self.clients: Sequence[Tensor] = _Tensors(self.samples, x.device)
        self.batch_size = min(batch_size, len(y))  # engines make room for a batch
        self.classes, self.seed, self.by_step = classes, seed, local_unit == "step"
        self._passes = [self._batches(samples) for samples in self.samples]

    def _batches(self, samples: np.ndarray) -> int:
        return -(-len(samples) // self.batch_size)

    def steps_per_epoch(self, client: int) -> int:
        return 1 if self.by_step else self._passes[client]

    def steps_an_epoch(self, clients: Sequence[int]) -> list[int]:
        """The same of many devices."""
        return [1] * len(clients) if self.by_step else list(map(self._passes.__getitem__, clients))

    def passes(self, client: int) -> int:
        """Mini-batches in one pass over a device's samples."""
        return self._passes[client]

    def epochs(self, client: int, dispatch: int, epochs: int) -> list[Pass]:
        """Per local epoch its batches; with local_unit=step an epoch is the next batch."""
        return self.every([client], [dispatch], [epochs])[0]

    def every(self, clients: Sequence[int], dispatch: Sequence[int], epochs: Sequence[int]) -> list[list[Pass]]:
        """`epochs` of many devices."""
        mine = [self.samples[client] for client in clients]
        orders = epochs
        if self.by_step:
            orders = [-(-count // self.passes(client)) for client, count in zip(clients, epochs, strict=True)]
        found = shuffles(self.seed, "batches", list(zip(clients, dispatch, strict=True)), mine, orders)
        if self.by_step:
            found = [self._steps(device, count) for device, count in zip(found, epochs, strict=True)]
        size, where = self.batch_size, self.x.device
        return [[Pass(order, size, where) for order in device] for device in found]

    def _steps(self, orders: list[np.ndarray], count: int) -> list[np.ndarray]:
        """Each a mini-batch."""
        size = self.batch_size
        return [order[begin : begin + size] for order in orders for begin in range(0, len(order), size)][:count]

    def shortened(self, clients: Sequence[int], steps: int) -> Batches:
        """A copy in which these devices have only so many mini-batches."""
        short = copy.copy(self)
        short.samples, short._passes = list(self.samples), list(self._passes)
        short.clients = _Tensors(short.samples, self.x.device)
        for client in clients:
            short.samples[client] = self.samples[client][: steps * self.batch_size]
            short._passes[client] = self._batches(short.samples[client])
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

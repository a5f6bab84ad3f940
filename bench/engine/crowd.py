"""Local epochs of many devices at once: stacks of rows in which the longest trainers come first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bench.engine.affine import AffineRule
from bench.engine.base import Group
from bench.engine.rows import DeviceRows, take
from bench.engine.stack import Linear, Stack, aligned
from bench.learning.batches import Batch, Batches

CACHE = 2**22  # bytes that a stack works on; measured: from 2^20 to 2^23 within a quarter
MOST = 256  # devices in a stack


@dataclass
class Plan:
    """Which samples a stack sees in each step, padded to one number of samples a device."""

    index: Tensor  # [steps, n, samples]
    weight: Tensor  # [steps, n, samples]: one over the batch's size, 0 for padding
    count: list[list[int]]  # [steps][n]: samples in the batch
    active: list[int]  # devices that take the step: the first so many

    @classmethod
    def of(cls, orders: Sequence[np.ndarray], size: int, samples: int, like: Tensor) -> Plan:
        """`orders`: each device's sample numbers of this epoch, longest first, cut into batches of `size`."""
        lengths = np.array([len(order) for order in orders])
        steps = -(-lengths // size)
        begin = np.arange(steps[0])[:, None] * size  # [steps, 1]
        count = np.minimum(size, lengths - begin).clip(1)[:, :, None]  # [steps, n, 1]
        place = np.arange(samples)
        # padding repeats the batch's last sample, so that it is as finite as the batch is
        at = np.minimum(begin[:, :, None] + np.minimum(place, count - 1), lengths[:, None] - 1)
        index = np.concatenate(orders)[at + (np.cumsum(lengths) - lengths)[:, None]]
        weight = torch.from_numpy((place < count) / count).to(like)
        active = (steps > np.arange(steps[0])[:, None]).sum(1).tolist()
        return cls(torch.from_numpy(index).to(like.device), weight, count[:, :, 0].tolist(), active)


class Crowd:
    """How many devices make a stack, and its buffers, depend on the model and the federation alone."""

    def __init__(self, linears: Sequence[Linear], batches: Batches, like: Tensor, size: int) -> None:
        self.linears, self.batches, self.like, self.size = linears, batches, like, size
        self.dims = [dim for linear in linears for dim in (linear.inner, linear.outer)]
        self.thin = 1 in self.dims  # torch multiplies one matrix with a side of one otherwise than many
        held = [min(len(samples), batches.batch_size) for samples in batches.samples]
        found = {count: self._samples(count) for count in set(held)}
        self.padded = [found[count] for count in held]  # samples in a batch of each client
        numbers = 2 * size + max(self.padded) * sum(self.dims)
        self.most = 1 if self.thin else max(1, min(MOST, CACHE // (numbers * like.element_size())))
        self.row = aligned(size, like)
        self.buffers: dict[str, Tensor] = {}
        self.rows: dict[tuple[int, int, tuple[str, ...]], DeviceRows] = {}
        self.stacks: dict[int, Stack] = {}

    def epoch(self, group: Group, epoch: int, affine: AffineRule) -> None:
        for samples, devices in self._stacks(group, epoch):
            self._train(group, epoch, affine, samples, devices)
            group.took({*devices}, epoch)

    def gradient(self, w: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss and gradient of one model."""
        n = 2 if self.thin else 1
        samples = self._samples(len(index))
        plan = Plan.of([index.numpy(force=True)] * n, len(index), samples, self.like)
        rows = self._rows(samples, n, ("g", "w"))
        rows.flat["w"].copy_(w)
        x, y = self.batches.load(plan.index[0].view(-1))
        rows.stack.enter(x.flatten(1))
        losses, g = rows.gradient("w", y.view(n, -1), plan.weight[0])
        torch._foreach_copy_(rows.parts["g"], g)
        return (losses * plan.weight[0]).sum(1)[0], rows.flat["g"][0].clone()

    def _samples(self, count: int) -> int:
        """How many samples `count` are padded to."""
        size = self.batches.batch_size
        padded = count if count >= size else min(size, 1 << (count - 1).bit_length())
        return aligned(padded, self.like, *self.dims)

    def _stacks(self, group: Group, epoch: int) -> Iterator[tuple[int, list[int]]]:
        """Devices whose batches are padded alike; a device's padding depends on its own data alone."""
        alike: dict[int, list[int]] = {}
        for k in group.active(epoch):
            alike.setdefault(self.padded[group.clients[k]], []).append(k)
        for samples, devices in alike.items():
            length = {k: len(group.batches[k][epoch].order) for k in devices}
            devices.sort(key=length.__getitem__, reverse=True)
            for begin in range(0, len(devices), self.most):
                yield samples, devices[begin : begin + self.most] * (2 if self.thin else 1)

    def _train(self, group: Group, epoch: int, affine: AffineRule, samples: int, devices: list[int]) -> None:
        passes = [group.batches[k][epoch] for k in devices]
        plan = Plan.of([one.order for one in passes], passes[0].size, samples, self.like)
        index = torch.tensor(devices, device=self.like.device)
        state = {"w": group.w, **group.sums} | ({} if group.m is None else {"m": group.m})
        names = (*state, *affine.vectors)
        for name, value in state.items():
            torch.index_select(value, 0, index, out=self._buffer(name)[: len(devices)])
        affine.fill({name: self._buffer(name)[: len(devices)] for name in affine.vectors}, devices)
        columns = affine.columns(devices, self.like)
        loss = group.loss.index_select(0, index)
        weights = plan.weight if affine.raw else plan.weight * columns["rate"]
        for step, n in enumerate(plan.active):
            group.steps.look()
            rows = self._rows(samples, n, names)
            x, y = self._load(group, plan, step, devices[:n])
            rows.stack.enter(x.flatten(1))
            losses = take(rows, affine, {name: column[:n] for name, column in columns.items()}, y, weights[step, :n])
            loss[:n] += losses.mul_(plan.weight[step, :n]).sum(1)
        for name, value in state.items():
            value.index_copy_(0, index, self._buffer(name)[: len(devices)])
        group.loss.index_copy_(0, index, loss)

    def _load(self, group: Group, plan: Plan, step: int, devices: list[int]) -> Batch:
        index = plan.index[step, : len(devices)]
        if self.batches.augment is None:
            x, y = self.batches.load(index.reshape(-1))
            return x, y.view(index.shape)
        distinct = list(dict.fromkeys(zip(devices, plan.count[step], strict=False)))
        loads = [self.batches.load(index[row, :size], group.augmentation[k]) for row, (k, size) in enumerate(distinct)]
        padded = [torch.cat([x, x[-1:].expand(index.shape[1] - len(x), *x.shape[1:])]) for x, _ in loads]
        return torch.cat(padded * (len(devices) // len(distinct))), self.batches.y[index]

    def _buffer(self, name: str) -> Tensor:
        if name not in self.buffers:
            self.buffers[name] = self.like.new_zeros(max(self.most, 2), self.row)[:, : self.size]
        return self.buffers[name]

    def _rows(self, samples: int, n: int, names: tuple[str, ...]) -> DeviceRows:
        key = (samples, n, names)
        if key not in self.rows:
            if samples not in self.stacks:
                self.stacks[samples] = Stack(self.linears, max(self.most, 2), samples, self.like)
            flat = {name: self._buffer(name)[:n] for name in names}
            self.rows[key] = DeviceRows(self.linears, flat, self.stacks[samples].at(n))
        return self.rows[key]

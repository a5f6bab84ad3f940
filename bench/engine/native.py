"""The engine for chains on a CPU: whole local epochs in C (bench/c), in single precision.

Products are taken in registers and in one order, so that neither a device's place in memory nor the length of the
processor's vectors changes a bit (where it multiplies and adds in one instruction).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from algorithms.base import Fed, LocalRule
from bench.compiled import accepted, library, pointer
from bench.engine.affine import AffineRule
from bench.engine.base import Engine, Group
from bench.engine.border import expect
from bench.engine.buffers import DEVICE, RULE, Buffers
from bench.engine.stages import parts
from bench.errors import UserError
from bench.learning.batches import Batch, Batches
from bench.learning.flat import Layout, trainable

TOGETHER = 2**19  # numbers of samples and shifts in one call: few enough to be in the cache when they are used
ANSWERED = 64  # samples that are answered at a time
LONGEST = 64  # bytes of a vector that are used where the processor has them


def unfit(module: nn.Module, batches: Batches) -> str | None:
    """Why this engine cannot train the model; None: it can."""
    if isinstance(found := parts(module, shape(batches)), str):
        return found
    like = trainable(module)[0]
    if like.dtype is not torch.float32 or like.device.type != "cpu":
        return f"it is {like.dtype} on {like.device.type}, not float32 on a CPU"
    return None


class Native(Engine):
    name = "native"

    def __init__(self, module: nn.Module, layout: Layout, batches: Batches) -> None:
        super().__init__(module, layout, batches)
        found, built = parts(module, shape(batches)), library()
        if isinstance(found, str) or isinstance(built, str):
            raise ValueError(f"{found}; {built}")
        self._train, self._answer = built.train, built.answer
        self.stages, self.linears = found
        self.inner = math.prod(self.stages[0].shape) if self.stages else self.linears[0].inner
        self.buffers: dict[int, Buffers] = {}
        self.classes = self.linears[-1].outer
        if self.stages:  # linear layers are torch's best
            self.answers = self._answers

    def epoch(self, group: Group, epoch: int, rule: LocalRule, fed: Fed) -> None:
        affine = AffineRule(group, rule, fed)
        active = np.array(group.active(epoch))
        lengths = np.array([len(group.batches[k][epoch].order) for k in active])
        for a, b in _parts(lengths * self.inner + (self.layout.size if affine.shifts else 0)):
            self._devices(group, epoch, affine, active[a:b], lengths[a:b])
            group.took(active[a:b], epoch)

    def gradient(self, w: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        g, loss = torch.zeros_like(w), w.new_zeros(())
        for some in torch.split(index, self.batches.batch_size if self.stages else len(index)):
            mean, part = self._gradient(w, some)
            loss += mean * (len(some) / len(index))
            g.add_(part, alpha=len(some) / len(index))
        return loss, g

    def _answers(self, w: Tensor, x: Tensor) -> Tensor:
        samples, logits = x.flatten(1).to(torch.float32).contiguous(), w.new_empty(len(x), self.classes)
        places = (
            _at("w", w, self.layout.size),
            _at("x", samples, len(x), self.inner),
            len(x),
            _at("logits", logits, len(x), self.classes),
        )
        accepted(self._answer(pointer(self._rule(ANSWERED), RULE, 1), *map(ctypes.c_int64, places), LONGEST))
        return logits

    def _gradient(self, w: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        x, y = self._inputs(*self.batches.load(index))
        g, device = torch.empty_like(w), np.zeros(1, DEVICE)
        device["w"], device["samples"] = _at("w", w, self.layout.size), len(index)
        device["x"], device["y"] = self._samples(x, y, len(index))
        self._call(self._rule(len(index), gradient=_at("gradient", g, self.layout.size)), device, index, y)
        return w.new_tensor(device["loss"][0]), g

    def _devices(self, group: Group, epoch: int, affine: AffineRule, devices: np.ndarray, lengths: np.ndarray) -> None:
        rows, batch, size = devices.tolist(), group.batches[devices[0]][epoch].size, self.layout.size
        shift = affine.shift(rows, group.w.new_empty(len(rows), size)) if affine.shifts else None
        table = np.zeros(len(rows), DEVICE)
        table["rate"], table["pull"] = affine.rate[devices], affine.pull[devices]
        for name, value in {"w": group.w, "m": group.m, **group.sums}.items():
            table[name] = _each(name, value, devices, len(group.clients), size)
        table["shift"] = _each("shift", shift, np.arange(len(rows)), len(rows), size)
        g, climbed = group.w.new_empty(2, size) if affine.raw else (None, None)
        mask = None if affine.mask is None else affine.mask.to(torch.float32)
        rule = self._rule(
            batch,
            mask=_at("mask", mask, size),
            gradient=_at("gradient", g, size),
            climbed=_at("climbed", climbed, size),
            momentum=affine.momentum,
            decay=affine.decay,
            sam=affine.sam,
        )
        longest = max(1, TOGETHER // (self.inner * batch)) * batch
        for begin in range(0, lengths.max(), longest):
            index, loaded = self._load(group, epoch, rows, begin, longest)
            x, y = self._inputs(*loaded)
            taken = np.clip(lengths - begin, 0, longest)
            before, (first, label) = np.cumsum(taken) - taken, self._samples(x, y, len(index))
            table["samples"], table["x"], table["y"] = taken, first + 4 * self.inner * before, label + 8 * before
            self._call(rule, table, index, y)
        group.loss.index_add_(0, torch.from_numpy(devices), torch.from_numpy(table["loss"].astype(np.float32)))

    def _load(self, group: Group, epoch: int, devices: list[int], begin: int, most: int) -> tuple[Tensor, Batch]:
        """Sample numbers, and the samples."""
        passes = [group.batches[k][epoch] for k in devices]
        orders = [one.order if begin + len(one.order) <= most else one.order[begin : begin + most] for one in passes]
        index = torch.from_numpy(np.concatenate(orders))
        if self.batches.augment is None:
            return index, self.batches.load(index)
        loads = [
            self.batches.load(batch, group.augmentation[k])
            for k, one, order in zip(devices, passes, orders, strict=True)
            for batch in torch.split(torch.from_numpy(order), one.size)
        ]
        x, y = zip(*loads, strict=True)
        return index, (torch.cat(x), torch.cat(y))

    @staticmethod
    def _inputs(x: Tensor, y: Tensor) -> Batch:
        whole = y if y.is_floating_point() else y.long()
        return x.flatten(1).to(torch.float32).contiguous(), whole.contiguous()

    def _samples(self, x: Tensor, y: Tensor, count: int) -> tuple[int, int]:
        """Where inputs and labels begin."""
        return _at("x", x, count, self.inner), _at("y", y, count, dtype=torch.int64)

    def _rule(self, batch: int, **terms: float) -> np.ndarray:
        if batch not in self.buffers:
            self.buffers[batch] = Buffers(self.stages, self.linears, batch)
        rule = self.buffers[batch].rule.copy()
        rule["size"], rule["numbers"] = self.layout.size, self.inner
        for name, value in terms.items():
            rule[name] = value
        return rule

    def _call(self, rule: np.ndarray, devices: np.ndarray, index: Tensor, y: Tensor) -> None:
        count = len(devices)
        given = pointer(rule, RULE, 1), pointer(devices, DEVICE, count), ctypes.c_int64(count), LONGEST
        if why := self._train(*given):
            for sample, label in zip(index.tolist(), y.tolist(), strict=True):
                if not 0 <= label < self.classes:
                    allowed = f"labels are whole numbers from 0 to {self.classes - 1}"
                    raise UserError(f"The training sample {sample} has the label {label}: {allowed}.")
            accepted(why)


def shape(batches: Batches) -> tuple[int, ...]:
    """Of a sample."""
    return tuple(batches.inputs(batches.x[:1]).shape[1:])


def _at(name: str, value: Tensor | None, *shape: int, dtype: torch.dtype = torch.float32) -> int:
    """Where C finds a tensor of this kind; 0: there is none."""
    if value is None:
        return 0
    if not expect(name, value, dtype, *shape).is_contiguous():
        raise UserError(f"{name} has gaps between its numbers.")
    return value.data_ptr()


def _each(name: str, value: Tensor | None, rows: np.ndarray, count: int, size: int) -> np.ndarray | int:
    """Where these of its rows begin, between which there may be gaps."""
    if value is None:
        return 0
    apart, step = expect(name, value, torch.float32, count, size).stride()
    if step != 1 and size > 1:
        raise UserError(f"{name} has gaps between its numbers.")
    return value.data_ptr() + 4 * apart * rows


def _parts(numbers: np.ndarray) -> Iterator[tuple[int, int]]:
    """Ranges of devices, each of one device or of no more than TOGETHER numbers."""
    ends, begin = np.cumsum(numbers), 0
    while begin < len(ends):
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + TOGETHER, "right")))
        yield begin, end
        begin = end

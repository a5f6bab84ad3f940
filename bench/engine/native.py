"""The engine for chains of linear layers and ReLU on a CPU: whole local epochs in C (bench/c), in single precision.

Products are taken in registers and in one order, so that neither a device's place in memory nor the processor's vector
length changes a bit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from algorithms.base import Fed, LocalRule
from bench.compiled import library, pointer
from bench.engine.base import Engine, Group
from bench.engine.dense import linears
from bench.engine.rates import Rates
from bench.learning.batches import Batch, Batches
from bench.learning.flat import Layout, trainable

TOGETHER = (
    2**19
)  # numbers of samples, and of shifts, that one call works on: what is loaded is still in the cache when used

LINEAR = np.dtype([(name, np.int64) for name in ("inner", "outer", "relu", "weight", "bias", "inputs", "d")])
DEVICE = np.dtype(
    [(name, np.int64) for name in ("w", "x", "y", "samples", "m", "shift", "last_gradient", "mean_gradient", "epoch")]
    + [(name, np.float64) for name in ("rate", "pull", "loss")]
)
RULE = np.dtype(
    [(name, np.int64) for name in ("depth", "batch", "size", "linears", "mask", "gradient", "climbed")]
    + [(name, np.float64) for name in ("momentum", "decay", "sam")]
)


def unfit(module: nn.Module) -> str | None:
    """Why this engine cannot train the model; None: it can."""
    if isinstance(found := linears(module), str):
        return found
    like = trainable(module)[0]
    if like.dtype is not torch.float32 or like.device.type != "cpu":
        return f"it is {like.dtype} on {like.device.type}, not float32 on a CPU"
    return None


class Native(Engine):
    name = "native"

    def __init__(self, module: nn.Module, layout: Layout, batches: Batches) -> None:
        super().__init__(module, layout, batches)
        found, built = linears(module), library()
        if isinstance(found, str) or isinstance(built, str):
            raise ValueError(f"{found}; {built}")
        self._train = built.train
        self.inner = found[0].inner
        self.rooms: dict[int, tuple[list[Tensor], np.ndarray]] = {}
        self.linears = found

    def epoch(self, group: Group, epoch: int, rule: LocalRule, fed: Fed) -> None:
        rates = Rates(group, rule, fed)
        active = group.active(epoch)
        beside = self.layout.size if rates.shifts else 0
        numbers = [len(group.batches[k][epoch].order) * self.inner + beside for k in active]
        for some in _parts(active, numbers):
            self._devices(group, epoch, rates, some)

    def gradient(self, w: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        x, y = self._inputs(*self.batches.load(index))
        g, device = torch.empty_like(w), np.zeros(1, DEVICE)
        device["w"], device["x"], device["y"], device["samples"] = _at(w), _at(x), _at(y), len(index)
        self._call(self._rule(len(index), gradient=_at(g)), device)
        return w.new_tensor(device["loss"][0]), g

    def _devices(self, group: Group, epoch: int, rates: Rates, devices: list[int]) -> None:
        passes = [group.batches[k][epoch] for k in devices]
        lengths = [len(one.order) for one in passes]
        batch = passes[0].size
        g, climbed = torch.empty(2, self.layout.size) if rates.raw else (None, None)
        mask = None if rates.mask is None else rates.mask.to(torch.float32)
        shift = rates.shift(devices, torch.empty(len(devices), self.layout.size)) if rates.shifts else None
        table = np.zeros(len(devices), DEVICE)
        table["rate"], table["pull"] = ([values[k] for k in devices] for values in (rates.rate, rates.pull))
        rows = {"w": group.w, "m": group.m, **group.sums}
        for name, value in rows.items():
            table[name] = 0 if value is None else _at(value) + 4 * value.stride(0) * np.array(devices)
        table["shift"] = 0 if shift is None else _at(shift) + 4 * shift.stride(0) * np.arange(len(devices))
        rule = self._rule(
            batch,
            mask=_at(mask),
            gradient=_at(g),
            climbed=_at(climbed),
            momentum=rates.momentum,
            decay=rates.decay,
            sam=rates.sam,
        )
        longest = max(1, TOGETHER // (self.inner * batch)) * batch
        for begin in range(0, max(lengths), longest):
            x, y = self._inputs(*self._load(group, epoch, devices, begin, longest))
            taken = np.clip(np.array(lengths) - begin, 0, longest)
            before = np.cumsum(taken) - taken
            table["samples"], table["x"], table["y"] = taken, _at(x) + 4 * self.inner * before, _at(y) + 8 * before
            self._call(rule, table)
        group.loss[devices] += torch.from_numpy(table["loss"]).to(group.loss)

    def _load(self, group: Group, epoch: int, devices: list[int], begin: int, most: int) -> Batch:
        passes = [group.batches[k][epoch] for k in devices]
        if self.batches.augment is None:
            return self.batches.load(
                torch.from_numpy(np.concatenate([one.order[begin : begin + most] for one in passes]))
            )
        loads = [
            self.batches.load(batch, group.augmentation[k])
            for k, one in zip(devices, passes, strict=True)
            for batch in torch.split(torch.from_numpy(one.order[begin : begin + most]), one.size)
        ]
        x, y = zip(*loads, strict=True)
        return torch.cat(x), torch.cat(y)

    @staticmethod
    def _inputs(x: Tensor, y: Tensor) -> Batch:
        return x.flatten(1).to(torch.float32).contiguous(), y.contiguous()

    def _rule(self, batch: int, **terms: float) -> np.ndarray:
        rule = np.zeros(1, RULE)
        rule["depth"], rule["batch"], rule["size"] = len(self.linears), batch, self.layout.size
        rule["linears"] = self._room(batch).ctypes.data
        for name, value in terms.items():
            rule[name] = value
        return rule

    def _room(self, batch: int) -> np.ndarray:
        """The layers, with room for what a mini-batch leaves in them."""
        if batch not in self.rooms:
            table, buffers = np.zeros(len(self.linears), LINEAR), []
            for row, linear in zip(table, self.linears, strict=True):
                buffers += [torch.empty(batch, linear.inner), torch.empty(batch, linear.outer)]
                row["inputs"], row["d"] = map(_at, buffers[-2:])
                row["inner"], row["outer"], row["relu"] = linear.inner, linear.outer, linear.relu
                row["weight"], row["bias"] = linear.weight, -1 if linear.bias is None else linear.bias
            self.rooms[batch] = buffers, table
        return self.rooms[batch][1]

    def _call(self, rule: np.ndarray, devices: np.ndarray) -> None:
        self._train(pointer(rule), pointer(devices), ctypes.c_int64(len(devices)))


def _at(value: Tensor | None) -> int:
    return 0 if value is None else value.data_ptr()


def _parts(devices: Sequence[int], numbers: Sequence[int]) -> Iterator[list[int]]:
    """Devices for one call after the other."""
    some, sum = list[int](), 0
    for k, count in zip(devices, numbers, strict=True):
        if some and sum + count > TOGETHER:
            yield some
            some, sum = [], 0
        some.append(k)
        sum += count
    yield some

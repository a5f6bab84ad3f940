"""Local epochs of one device with a large dense model: every pass over the weights counts.

The inputs of the next steps are known, so the first layer's updates can wait for a block of them: with Z = X W' + b
and G = X X' + 1 for the block, step i sees z_i = rho^i Z_i + s_i X_i shift' - sum_{j<i} rho^(i-1-j) G_ij d_j, where
rho = 1 - pull, s_i = 1 + rho + ... + rho^(i-1), and d holds the rate; the weights are read and written once a block.

The C engine is faster, where there is one; but results in leaderboards/results have the bits of this one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from bench.engine.affine import AffineRule
from bench.engine.base import Group
from bench.engine.stack import Linear
from bench.learning.batches import Batches

ROWS = 80  # samples in a block: more, and the products among them cost more than the passes saved
Cuts = list[tuple[Tensor | None, Tensor | None]]


def train(linears: Sequence[Linear], batches: Batches, group: Group, epoch: int, affine: AffineRule, k: int) -> None:
    one = group.batches[k][epoch]
    index = torch.from_numpy(one.order).to(group.w.device)
    steps = max(1, ROWS // one.size) if group.m is None else 1
    device = _Device(linears, affine, group, k, steps * one.size)
    loss = group.loss[k]
    for part in torch.split(index, steps * one.size):
        group.steps.look()
        if batches.augment is None:
            x, y = batches.load(part)
        else:
            loads = [batches.load(batch, group.augmentation[k]) for batch in torch.split(part, one.size)]
            x, y = (torch.cat(parts) for parts in zip(*loads, strict=True))
        loss += device.block(x.flatten(1), y, one.size)


class _Device:
    def __init__(self, linears: Sequence[Linear], affine: AffineRule, group: Group, k: int, samples: int) -> None:
        self.linears, self.pull, self.rate = linears, float(affine.pull[k]), float(affine.rate[k])
        self.momentum, self.decay = affine.momentum, affine.decay
        w = group.w[k : k + 1]
        self.w, self.ones = _cut(linears, w), w.new_ones(samples)
        self.m = None if group.m is None else _cut(linears, group.m[k : k + 1])
        self.shift: Cuts = [(None, None)] * len(linears)
        if affine.shifts:
            self.shift = [*_cut(linears, affine.shift([k], torch.empty_like(w)))]

    def block(self, x: Tensor, y: Tensor, size: int) -> Tensor:
        """Some steps; returns the sum of their mean losses."""
        sizes = [min(size, len(x) - begin) for begin in range(0, len(x), size)]
        rates = [(self.rate if self.m is None else 1.0) / count for count in sizes]
        z, seen, shifted = self._ahead(x, sizes)
        d, logits = torch.empty_like(z), z.new_empty(len(z), self.linears[-1].outer)
        each = 1 / z.new_tensor(sizes[:1] * (len(x) - sizes[-1]) + sizes[-1:] * sizes[-1])[:, None]
        wanted = torch.zeros_like(logits).scatter_(1, y[:, None], each * (-rates[0] * sizes[0]))
        parts = zip(sizes, rates, *(torch.split(rows, sizes) for rows in (z, d, logits, wanted)), strict=True)
        begin = 0
        for i, (count, rate, now, mine, out, target) in enumerate(parts):
            if self.pull:
                now.mul_((1 - self.pull) ** i)
            if shifted is not None and i:
                now.add_(shifted[begin : begin + count], alpha=self._sum(i))
            if i:
                now.addmm_(seen[begin : begin + count, :begin], d[:begin], alpha=-1)
            self._rest(now, target, rate, mine, out)
            begin += count
        if self.pull:
            for i, part in enumerate(reversed(torch.split(d, sizes))):
                part.mul_((1 - self.pull) ** i)
        self._update(0, d, x, len(sizes))
        return torch.log_softmax(logits, 1).gather(1, y[:, None]).mul_(each).sum().neg()

    def _sum(self, steps: int) -> float:
        """1 + rho + ... + rho^(steps - 1)"""
        return sum((1 - self.pull) ** i for i in range(steps))

    def _ahead(self, x: Tensor, sizes: list[int]) -> tuple[Tensor, Tensor, Tensor | None]:
        z = _affine(x, *self.w[0])
        if len(sizes) == 1:
            return z, z, None
        seen = x @ x.T
        if self.w[0][1] is not None:
            seen += 1
        if self.pull:
            step = np.repeat(np.arange(len(sizes)), sizes)
            power = np.maximum(step[:, None] - 1 - step, 0)
            seen *= torch.from_numpy((1 - self.pull) ** power).to(seen)
        weight, bias = self.shift[0]
        return z, seen, None if weight is None else _affine(x, weight, bias)

    def _update(self, i: int, d: Tensor, inputs: Tensor, steps: int = 1) -> None:
        if self.m is not None:
            self._add(self.m[i], d, inputs, 1.0, self.momentum)
            for part, m in zip(self.w[i], self.m[i], strict=True):
                if self.decay and part is not None and m is not None:
                    m.add_(part, alpha=self.decay)
        for part, shift in zip(self.w[i], self.shift[i], strict=True):
            if part is not None and self.pull:
                part.sub_(part, alpha=1 - (1 - self.pull) ** steps)
            if part is not None and shift is not None:
                part.add_(shift, alpha=self._sum(steps))
        if self.m is None:
            self._add(self.w[i], d, inputs, -1.0)
        else:
            for part, m in zip(self.w[i], self.m[i], strict=True):
                if part is not None and m is not None:
                    part.sub_(m, alpha=self.rate)

    def _add(
        self, to: tuple[Tensor, Tensor | None], d: Tensor, inputs: Tensor, alpha: float, beta: float = 1.0
    ) -> None:
        """to <- beta to + alpha d' inputs, without a gradient of its own in between."""
        weight, bias = to
        weight.addmm_(d.T, inputs, alpha=alpha, beta=beta)
        if bias is not None:
            bias.addmv_(d.T, self.ones[: len(d)], alpha=alpha, beta=beta)

    def _rest(self, z: Tensor, target: Tensor, rate: float, first: Tensor, logits: Tensor) -> None:
        """One step from the first layer's z on: trains the other layers, and writes the derivative by z to `first`.
        `target` is minus the rate at each sample's class."""
        inputs = []
        for i, (linear, (weight, bias)) in enumerate(zip(self.linears[:-1], self.w[1:], strict=True), 2):
            inputs.append(z.clamp_min_(0) if linear.relu else z)
            z = _affine(z, weight, bias, logits if i == len(self.w) else None)
        if not inputs:
            logits.copy_(z)
        d = torch.add(target, torch.softmax(z, 1), alpha=rate, out=None if inputs else first)
        for i in range(len(inputs), 0, -1):
            mine = torch.mm(d, self.w[i][0], out=first if i == 1 else None)
            if self.linears[i - 1].relu:
                torch.ops.aten.threshold_backward.grad_input(mine, inputs[i - 1], 0, grad_input=mine)
            self._update(i, d, inputs[i - 1])
            d = mine


def _cut(linears: Sequence[Linear], w: Tensor) -> list[tuple[Tensor, Tensor | None]]:
    """[1, P] -> matrices and vectors"""
    pairs = [linear.cut(w) for linear in linears]
    return [(weight[0], None if bias is None else bias[0]) for weight, bias in pairs]


def _affine(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor | None = None) -> Tensor:
    return torch.mm(x, weight.T, out=out) if bias is None else torch.addmm(bias, x, weight.T, out=out)

"""The engine that asks autograd for the gradients of many devices at once: torch.func.vmap over stacks of devices.

Matrix products and convolutions round differently in a stack of another size, and at another place in it where a
device's share of some tensor begins at another offset from a 64-byte boundary. So stacks and batches have a fixed size,
filled up with what weighs nothing, and a device's places in a stack follow from its number alone, all with the same
offsets: its result does not depend on its company.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from algorithms.base import Adam, Fed, LocalRule
from bench import own_code
from bench.engine import kernel
from bench.engine.base import Engine, Group
from bench.errors import UserError
from bench.learning.batches import Batches
from bench.learning.flat import Layout, trainable

MOST = 64  # devices in a stack
NUMBERS = 2**19  # in the models, and in the inputs, of a stack


class Vmap(Engine):
    """Any module whose losses are per sample and whose training step vmap can take."""

    name = "vmap"
    optimizers = True

    def __init__(self, module: nn.Module, layout: Layout, batches: Batches) -> None:
        super().__init__(module, layout, batches)
        self.names = [f"module.{name}" for name, p in module.named_parameters() if p.requires_grad]
        self.step = _Step(module)
        self.one = grad_and_value(self._loss)
        self.many = vmap(self.one)
        self.stack = stack_size(layout, batches)
        self.together = 4 * self.stack  # fewer seldom fill their lanes
        self.lanes = min(self.stack, 64 // trainable(module)[0].element_size())
        if reason := self._refusal():
            raise UserError(f"engine=vmap cannot train this model: {reason}. Take engine=eager, which trains any.")

    def epoch(self, group: Group, epoch: int, rule: LocalRule, fed: Fed) -> None:
        for places in self._stacks(group, epoch):
            stack = _DeviceStack(group, epoch, places, self)
            self._train(stack, kernel.row_terms(rule, stack.rows, fed.lr, group.w), fed)
            group.took(stack.places, epoch)

    def gradient(self, w: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        x, y = self.batches.load(index)
        g, loss = self.one(w, x, y, w.new_full((len(index),), 1 / len(index)))
        return loss, g

    def _stacks(self, group: Group, epoch: int) -> Iterator[list[int | None]]:
        """Which row of the group is trained at which place of each stack, the longest first."""
        waiting: dict[int, list[int]] = defaultdict(list)
        for k in sorted(group.active(epoch), key=lambda k: len(group.batches[k][epoch])):
            waiting[group.clients[k] % self.lanes].append(k)
        while any(waiting.values()):
            lanes = (waiting[place % self.lanes] for place in range(self.stack))
            yield [lane.pop() if lane else None for lane in lanes]

    def _train(self, stack: _DeviceStack, t: kernel.Terms, fed: Fed) -> None:
        moments = None if fed.optimizer is None else stack.adam(fed.optimizer)
        for number in range(stack.steps):
            self.steps.look()
            x, y, weight = stack.load(number)
            g, loss = self.many(stack.w, x, y, weight)
            if t.sam:
                g, _ = self.many(kernel.climbed_rows(stack.w, g, t.sam), x, y, weight)
            stack.loss += loss
            kernel.add_up(stack.sums, [g])
            kernel.step([stack.w], [g], stack.m, [stack.received], t, fed.momentum, fed.decay, moments, fed.clip)
            stack.give_back(number)

    def _loss(self, w: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        losses: Tensor = functional_call(self.step, dict(zip(self.names, self.layout.views(w), strict=True)), (x, y))
        return (losses * weight).sum()

    def _refusal(self) -> str | None:
        """Why this module cannot be trained here, found out on two samples."""
        for layer in self.module.modules():
            if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0:
                return f"it contains {layer}, and devices of a stack cannot draw random numbers of their own"
        x, y = self.batches.load(torch.arange(min(2, len(self.batches.y)), device=self.batches.y.device))
        self.module.train()
        with torch.random.fork_rng(devices=[]):
            try:
                return self._fails(x, y)
            except Exception as error:
                return f"vmap cannot run its training step ({own_code.reason(error)})"

    def _fails(self, x: Tensor, y: Tensor) -> str | None:
        n = len(y)
        with torch.no_grad():
            losses = self.step(x, y)
            if losses.shape != (n,):
                return "its training step gives only one loss for the batch, not one for each sample"
            w = self.layout.flatten(trainable(self.module)).expand(2, -1)
        _, mean = self.many(w, x.expand(2, *x.shape), y.expand(2, *y.shape), w.new_full((2, n), 1 / n))
        with torch.no_grad():
            longer = self.step(_padded(x, n + 3), _padded(y, n + 3))
        if not torch.allclose(longer[:n], losses, rtol=1e-4, equal_nan=True):
            return "the loss of a sample depends on the others in its batch"
        if not torch.allclose(mean, losses.mean().expand(2), rtol=1e-4, equal_nan=True):
            return "vmap gives it another loss than a plain call"
        return None


class _Step(nn.Module):
    """The training step as a forward, for functional_call. It is not told which batch it is: devices differ in it."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor, y: Tensor) -> Any:
        return self.module.training_step((x, y), None)  # type: ignore[operator]


class _DeviceStack:
    """Devices at their places. One that has taken its last step is trained on, but what it was then counts."""

    def __init__(self, group: Group, epoch: int, places: list[int | None], engine: Vmap) -> None:
        self.group, self.epoch, self.batches, self.width = group, epoch, engine.batches, engine.batches.batch_size
        self.places = {k: place for place, k in enumerate(places) if k is not None}
        filler = next(iter(self.places))
        self.rows = [filler if k is None else k for k in places]
        index = torch.tensor(self.rows, device=group.w.device)
        self.w = engine.layout.rows(group.w.index_select(0, index))  # [S, P]
        self.received = group.received.index_select(0, index)
        self.m = None if group.m is None else [group.m.index_select(0, index)]
        self.moments = None if group.moments is None else group.moments.index_select(1, index)
        self.loss = group.loss.index_select(0, index)
        self.sums = {name: [value.index_select(0, index)] for name, value in group.sums.items()}
        each = {k: group.batches[k][epoch] for k in self.places}
        self.steps = max(map(len, each.values()))
        self._ends: dict[int, list[int]] = defaultdict(list)  # devices by the number of their last step
        for k, steps in each.items():
            self._ends[len(steps) - 1].append(k)
        self._order = self._numbers({k: torch.cat(list(steps)) for k, steps in each.items()})

    def load(self, number: int) -> tuple[Tensor, Tensor, Tensor]:
        """x [S, B, ...], y [S, B] and what each sample weighs in its batch's mean: nothing if it only fills up."""
        index, weight = self._order[0][number], self._order[1][number]
        x, y = self.batches.load(index.flatten())
        x, y = (part.reshape(*index.shape, *part.shape[1:]) for part in (x, y))
        if self.batches.augment is not None:
            x = self._augmented(x, index, number)
        return x, y, weight

    def adam(self, adam: Adam) -> kernel.Moments:
        assert self.moments is not None
        m, v = self.moments
        taken = [[self.group.taken(k, self.epoch)] for k in self.rows]
        return kernel.Moments(adam, [m], [v], torch.tensor(taken, dtype=torch.float64, device=self.w.device))

    def give_back(self, number: int) -> None:
        if number not in self._ends:
            return
        rows = torch.tensor(self._ends[number], device=self.w.device)
        places = torch.tensor([self.places[k] for k in self._ends[number]], device=self.w.device)
        pairs = [(self.group.w, self.w), (self.group.loss, self.loss)]
        pairs += [(self.group.sums[name], value) for name, (value,) in self.sums.items()]
        if self.group.m is not None and self.m is not None:
            pairs.append((self.group.m, self.m[0]))
        if self.group.moments is not None and self.moments is not None:
            pairs += zip(self.group.moments, self.moments, strict=True)
        for theirs, mine in pairs:
            theirs.index_copy_(0, rows, mine.index_select(0, places))

    def _numbers(self, order: dict[int, Tensor]) -> tuple[Tensor, Tensor]:
        """Sample numbers and weights, [steps, S, B]; after a device's last sample that one is repeated."""
        self._samples = {k: len(index) for k, index in order.items()}
        filled = {k: _padded(index, self.steps * self.width).view(self.steps, -1) for k, index in order.items()}
        samples = self.w.new_tensor([self._samples[k] for k in self.rows])[None, :, None]
        at = torch.arange(self.width, device=self.w.device)
        begin = self.width * torch.arange(self.steps, device=self.w.device)[:, None, None]
        size = (samples - begin).clamp(1, self.width)
        return torch.stack([filled[k] for k in self.rows], 1), torch.where(at < size, 1 / size, torch.zeros_like(size))

    def _augmented(self, x: Tensor, index: Tensor, number: int) -> Tensor:
        parts = list(x)
        for k, place in self.places.items():
            size = min(self.width, self._samples[k] - number * self.width)
            if size > 0:
                mine, _ = self.batches.load(index[place, :size], self.group.augmentation[k])
                parts[place] = _padded(mine, self.width)
        return torch.stack(parts)


def stack_size(layout: Layout, batches: Batches) -> int:
    """The largest power of two of devices whose models and inputs are not too many numbers; no more than there are."""
    inputs = batches.inputs(batches.x[:1]).numel() * batches.batch_size
    most = min(MOST, NUMBERS // layout.size, NUMBERS // inputs, 2 * len(batches.clients) - 1)
    return 1 << max(1, most).bit_length() - 1


def _padded(value: Tensor, length: int) -> Tensor:
    """The last row repeated: a real one, which no model chokes on."""
    missing = length - len(value)
    return torch.cat([value, value[-1:].expand(missing, *value.shape[1:])]) if missing else value

"""The engine that asks autograd for g: any module, one device after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from algorithms.base import Fed, LocalRule
from bench.engine import kernel
from bench.engine.base import Engine, Group
from bench.engine.kernel import Vector
from bench.learning.batches import Batch, Batches
from bench.learning.flat import Layout, bind, trainable
from bench.seeding import stream


class Eager(Engine):
    """Parameters are views into the device's row of w, updated in place."""

    name = "eager"

    def __init__(self, module: nn.Module, layout: Layout, batches: Batches) -> None:
        super().__init__(module, layout, batches)
        self.params = trainable(module)
        self.training_step: Callable[[Batch, int], Tensor] = module.training_step  # type: ignore[assignment]

    def epoch(self, group: Group, epoch: int, rule: LocalRule, fed: Fed) -> None:
        with torch.random.fork_rng(devices=[]):
            for k in group.active(epoch):
                seed = stream(self.batches.seed, "dropout", group.clients[k], group.dispatch[k], epoch)
                self._seed(int(seed.integers(2**63 - 1)), group.w)
                self._device(group, k, epoch, kernel.terms(rule, k, fed.lr, group.w.dtype, self.layout.views), fed)

    @staticmethod
    def _seed(number: int, w: Tensor) -> None:
        """torch.manual_seed walks through the stack, which takes longer than a small local step."""
        torch.default_generator.manual_seed(number)
        if w.is_cuda:
            torch.cuda.manual_seed(number)

    def gradient(self, w: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        bind(self.module, self.layout.views(w))
        loss, g = self._gradient(self.batches.load(index), 0)
        return loss, self.layout.flatten(g)

    def _device(self, group: Group, k: int, epoch: int, t: kernel.Terms, fed: Fed) -> None:
        w, received = self.layout.views(group.w[k]), self.layout.views(group.received[k])
        m = None if group.m is None else self.layout.views(group.m[k])
        sums = {name: self.layout.views(value[k]) for name, value in group.sums.items()}
        bind(self.module, w)
        first = sum(len(batches) for batches in group.batches[k][:epoch])
        for step, index in enumerate(group.batches[k][epoch], first):
            batch = self.batches.load(index, group.augmentation[k])
            loss, g = self._gradient(batch, step)
            if t.sam:
                before = [part.clone() for part in w]
                kernel.climb(w, g, t.sam)
                g = self._gradient(batch, step)[1]
                torch._foreach_copy_(w, before)
            for name, total in sums.items():
                if name == "last_gradient":
                    torch._foreach_copy_(total, g)
                else:
                    torch._foreach_add_(total, g)
            kernel.step(w, g, m, received, t, fed.momentum, fed.decay)
            group.loss[k] += loss

    def _gradient(self, batch: Batch, index: int) -> tuple[Tensor, Vector]:
        loss = self.training_step(batch, index)
        if loss.dim():
            loss = loss.mean()
        g = torch.autograd.grad(loss, self.params, materialize_grads=True)
        return loss.detach(), _own(g)


def _own(g: Sequence[Tensor]) -> Vector:
    """The kernel writes into g, and autograd may give two parameters one tensor, or one number seen many times."""
    seen: set[int] = set()
    parts = []
    for part in g:
        expanded = any(stride == 0 and size > 1 for stride, size in zip(part.stride(), part.shape, strict=True))
        shared = part.data_ptr() in seen or expanded
        seen.add(part.data_ptr())
        parts.append(part.clone(memory_format=torch.contiguous_format) if shared else part)
    return parts

"""The engine that asks autograd for g: any module, one device after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from algorithms.base import Fed, LocalRule
from bench.engine.base import Group
from bench.engine.kernel import Terms, Vector
from bench.engine.one_by_one import OneByOne
from bench.learning.batches import Batch, Batches
from bench.learning.flat import Layout, bind, trainable
from bench.seeding import stream


class Eager(OneByOne):
    """Parameters are views into the device's row of w, updated in place."""

    name = "eager"

    def __init__(self, module: nn.Module, layout: Layout, batches: Batches) -> None:
        super().__init__(module, layout, batches)
        self.params = trainable(module)
        self.training_step: Callable[[Batch, int], Tensor] = module.training_step  # type: ignore[assignment]

    def epoch(self, group: Group, epoch: int, rule: LocalRule, fed: Fed) -> None:
        with torch.random.fork_rng(devices=[]):
            super().epoch(group, epoch, rule, fed)

    def device(self, group: Group, k: int, epoch: int, t: Terms, fed: Fed) -> None:
        """torch.manual_seed walks through the stack, which takes longer than a small local step."""
        seed = stream(self.batches.seed, "dropout", group.clients[k], group.dispatch[k], epoch)
        number = int(seed.integers(2**63 - 1))
        torch.default_generator.manual_seed(number)
        if group.w.is_cuda:
            torch.cuda.manual_seed(number)
        super().device(group, k, epoch, t, fed)

    def gradient(self, w: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        self.bind(w)
        loss, g = self.batch_gradient(self.batches.load(index), 0)
        return loss, self.layout.flatten(g)

    def bind(self, w: Tensor) -> None:
        bind(self.module, self.cut(w))

    def cut(self, flat: Tensor) -> Vector:
        return self.layout.views(flat)

    def batch_gradient(self, batch: Batch, step: int) -> tuple[Tensor, Vector]:
        loss = self.training_step(batch, step)
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

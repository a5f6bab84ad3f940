"""The engine for chains with convolutions: forward and backward by hand, one device after the other."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from algorithms.base import Fed, LocalRule
from bench.engine import kernel, structure
from bench.engine.base import Engine, Group
from bench.engine.compile import compiled
from bench.engine.layers import Param
from bench.learning.batches import Batch, Batches
from bench.learning.flat import Layout


class Convolutional(Engine):
    """Every layer computes with views of the device's row of w, and writes into views of one gradient."""

    name = "chain"

    def __init__(self, module: nn.Module, layout: Layout, batches: Batches) -> None:
        super().__init__(module, layout, batches)
        layers = structure.chain(module)
        if isinstance(layers, str):
            raise ValueError(f"this model is not a chain: {layers}")
        named = dict(module.named_parameters())
        like = next(iter(named.values())).detach()
        self.g = like.new_zeros(layout.size)
        parts = iter(layout.views(self.g))
        self.params: list[Param] = []  # those that are trained, in the layout's order
        found: dict[int, Param] = {}
        for p in named.values():
            found[id(p)] = Param(p.detach(), next(parts) if p.requires_grad else torch.zeros_like(p))
            if p.requires_grad:
                self.params.append(found[id(p)])
        shape = tuple(batches.inputs(batches.x[:1]).shape[1:])
        self.steps = compiled(layers, shape, batches.batch_size, like, found)
        self.first = next(i for i, step in enumerate(self.steps) if step.trains)
        self.batch = 0
        self.minus_one = like.new_full((1, 1), -1.0)

    def epoch(self, group: Group, epoch: int, rule: LocalRule, fed: Fed) -> None:
        for k in group.active(epoch):
            self._device(group, k, epoch, kernel.terms(rule, k, fed.lr, group.w.dtype, lambda flat: [flat]), fed)

    def gradient(self, w: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        self._bind(w)
        g, loss = torch.zeros_like(self.g), w.new_zeros(())
        for part in torch.split(index, self.batches.batch_size):
            loss += self._gradient(self.batches.load(part)) * (len(part) / len(index))
            g.add_(self.g, alpha=len(part) / len(index))
        return loss, g

    def _bind(self, w: Tensor) -> None:
        for param, view in zip(self.params, self.layout.views(w), strict=True):
            param.w = view

    def _device(self, group: Group, k: int, epoch: int, t: kernel.Terms, fed: Fed) -> None:
        w, received = group.w[k], group.received[k]
        m = None if group.m is None else [group.m[k]]
        sums = {name: value[k] for name, value in group.sums.items()}
        self._bind(w)
        for index in group.batches[k][epoch]:
            batch = self.batches.load(index, group.augmentation[k])
            loss = self._gradient(batch)
            if t.sam:
                before = w.clone()
                kernel.climb([w], [self.g], t.sam)
                self._gradient(batch)
                w.copy_(before)
            for name, total in sums.items():
                if name == "last_gradient":
                    total.copy_(self.g)
                else:
                    total.add_(self.g)
            kernel.step([w], [self.g], m, [received], t, fed.momentum, fed.decay)
            group.loss[k] += loss

    def _gradient(self, batch: Batch) -> Tensor:
        """The mean loss; its gradient is in g."""
        x, y = batch
        if len(y) != self.batch:
            self.batch = len(y)
            for step in self.steps:
                step.size(self.batch)
        for step in self.steps:
            x = step.forward(x)
        losses = torch.log_softmax(x, 1)
        chosen = y[:, None]
        loss = losses.gather(1, chosen).mean().neg_()
        g = losses.exp_()
        g.scatter_add_(1, chosen, self.minus_one.expand(len(y), 1))
        g.div_(len(y))
        for i in range(len(self.steps) - 1, self.first - 1, -1):
            g = self.steps[i].backward(g, i > self.first)
        return loss

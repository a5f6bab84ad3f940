"""The engine for chains with convolutions: forward and backward by hand, one device after the other."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bench.engine import structure
from bench.engine.compile import compiled
from bench.engine.kernel import Vector
from bench.engine.layers import Param
from bench.engine.one_by_one import OneByOne
from bench.learning.batches import Batch, Batches
from bench.learning.flat import Layout


class Convolutional(OneByOne):
    """Every layer computes with views of the device's row of w, and writes into views of one gradient."""

    name = "chain"

    def __init__(self, module: nn.Module, layout: Layout, batches: Batches) -> None:
        super().__init__(module, layout, batches)
        layers = structure.chain(module)
        if isinstance(layers, str):
            raise ValueError(f"this model is not a chain: {layers}")
        like = next(module.parameters()).detach()
        self.g = like.new_zeros(layout.size)
        parts = iter(layout.views(self.g))
        self.params: list[Param] = []  # those that are trained, in the layout's order
        found: dict[int, Param] = {}
        for p in module.parameters():
            found[id(p)] = Param(p.detach(), next(parts) if p.requires_grad else torch.zeros_like(p))
            if p.requires_grad:
                self.params.append(found[id(p)])
        shape = tuple(batches.inputs(batches.x[:1]).shape[1:])
        self.layers = compiled(layers, shape, batches.batch_size, like, found)
        self.first = next(i for i, layer in enumerate(self.layers) if layer.trains)
        self.batch = 0
        self.minus_one = like.new_full((1, 1), -1.0)

    def gradient(self, w: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        self.bind(w)
        g, loss = torch.zeros_like(self.g), w.new_zeros(())
        for part in torch.split(index, self.batches.batch_size):
            loss += self.batch_gradient(self.batches.load(part), 0)[0] * (len(part) / len(index))
            g.add_(self.g, alpha=len(part) / len(index))
        return loss, g

    def bind(self, w: Tensor) -> None:
        for param, view in zip(self.params, self.layout.views(w), strict=True):
            param.w = view

    def cut(self, flat: Tensor) -> Vector:
        return [flat]

    def batch_gradient(self, batch: Batch, step: int) -> tuple[Tensor, Vector]:
        x, y = batch
        if len(y) != self.batch:
            self.batch = len(y)
            for layer in self.layers:
                layer.size(self.batch)
        for layer in self.layers:
            x = layer.forward(x)
        losses = torch.log_softmax(x, 1)
        chosen = y[:, None]
        loss = losses.gather(1, chosen).mean().neg_()
        g = losses.exp_()
        g.scatter_add_(1, chosen, self.minus_one.expand(len(y), 1))
        g.div_(len(y))
        for i in range(len(self.layers) - 1, self.first - 1, -1):
            g = self.layers[i].backward(g, i > self.first)
        return loss, [self.g]

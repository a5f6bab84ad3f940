"""Dense chains of many devices at once: a batched product a layer, forward and backward, without autograd.

Hidden activations are [n, samples, units], logits [n, classes, samples]: the orientations that are fastest. Products
round differently on unaligned operands, so every device's matrix begins on a 64-byte boundary: the number of samples
is padded (with weight 0), and inputs get columns of zeros where a gradient's matrices would lie unaligned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.engine.kernel import Vector


@dataclass(frozen=True)
class Linear:
    """A linear layer and where its parameters lie in the flat vector; `relu`: one follows."""

    inner: int
    outer: int
    weight: int
    bias: int | None
    relu: bool

    def cut(self, flat: Tensor) -> tuple[Tensor, Tensor | None]:
        """[n, P] -> [n, outer, inner], [n, outer]"""
        weight = flat[:, self.weight : self.weight + self.inner * self.outer].view(-1, self.outer, self.inner)
        return weight, None if self.bias is None else flat[:, self.bias : self.bias + self.outer]


def aligned(numbers: int, like: Tensor, *factors: int) -> int:
    """The next number whose product with each factor fills 64-byte lines."""
    line = 64 // like.element_size()
    while any(numbers * factor % line for factor in factors or (1,)):
        numbers += 1
    return numbers


@dataclass
class StackedLinear:
    """One layer of n devices: its gradient and what the way to it needs."""

    linear: Linear
    inputs: Tensor  # [n, samples, inner]
    wide: Tensor  # the same with its columns of zeros
    z: Tensor  # [n, samples, outer]; logits [n, outer, samples]
    d: Tensor  # the loss's derivative by z, in its shape
    back: Tensor  # [n, samples, inner]: by the inputs
    weight: Tensor  # [n, outer, inner + zeros]: by the weights
    bias: Tensor  # [n, outer]: by the bias

    @property
    def gradient(self) -> Vector:
        weight = self.weight[:, :, : self.linear.inner]
        return [weight] if self.linear.bias is None else [weight, self.bias]

    def at(self, n: int) -> StackedLinear:
        parts = (self.inputs, self.wide, self.z, self.d, self.back, self.weight, self.bias)
        return StackedLinear(self.linear, *(part[:n] for part in parts))


class Stack:
    """Buffers for n devices with `samples` samples each."""

    def __init__(self, linears: Sequence[Linear], n: int, samples: int, like: Tensor) -> None:
        self.layers = [self._layer(linear, linear is linears[-1], n, samples, like) for linear in linears]

    @staticmethod
    def _layer(linear: Linear, last: bool, n: int, samples: int, like: Tensor) -> StackedLinear:
        inner, outer = linear.inner, linear.outer
        columns = inner if inner > 1 and inner * outer % aligned(1, like) == 0 else aligned(inner, like, 1)
        wide = like.new_zeros(n, samples, columns)
        shape = (n, outer, samples) if last else (n, samples, outer)
        return StackedLinear(
            linear,
            inputs=wide[:, :, :inner],
            wide=wide,
            z=like.new_zeros(shape),
            d=like.new_zeros(shape),
            back=like.new_zeros(n, samples, inner),
            weight=like.new_zeros(n, outer, columns),
            bias=like.new_zeros(n, outer),
        )

    def enter(self, x: Tensor) -> None:
        """Inputs [n samples, inner]."""
        first = self.layers[0]
        if first.wide.shape[2] == first.linear.inner:
            first.inputs = first.wide = x.view(first.wide.shape)
        else:
            first.inputs.copy_(x.view(first.inputs.shape))

    def at(self, n: int) -> Stack:
        """Its first n devices."""
        part = object.__new__(Stack)
        part.layers = [layer.at(n) for layer in self.layers]
        return part

    def gradient(self, w: list[tuple[Tensor, Tensor | None]], y: Tensor, weight: Tensor) -> Tensor:
        """Leaves sum_b weight_b dloss_b/dw in the layers and returns the losses [n, samples]; y, weight are [n,
        samples] and the inputs lie in the first layer."""
        losses = self._forward(w, y)
        last = self.layers[-1]
        last.d.exp_().mul_(weight[:, None])
        last.d.scatter_add_(1, y[:, None], weight.neg()[:, None])
        for i in range(len(self.layers) - 1, -1, -1):
            layer = self.layers[i]
            rows, axis = (layer.d, 2) if layer is last else (layer.d.transpose(1, 2), 1)  # [n, outer, samples]
            torch.bmm(rows, layer.wide, out=layer.weight)
            if layer.linear.bias is not None:
                torch.sum(layer.d, axis, out=layer.bias)
            if i:
                before = self.layers[i - 1]
                if before.linear.relu:
                    torch.bmm(rows.transpose(1, 2), w[i][0], out=layer.back)
                    torch.ops.aten.threshold_backward.grad_input(layer.back, layer.inputs, 0, grad_input=before.d)
                else:
                    torch.bmm(rows.transpose(1, 2), w[i][0], out=before.d)
        return losses

    def _forward(self, w: list[tuple[Tensor, Tensor | None]], y: Tensor) -> Tensor:
        for i, (layer, (weight, bias)) in enumerate(zip(self.layers, w, strict=True)):
            if layer is self.layers[-1]:
                a, b, column = weight, layer.inputs.transpose(1, 2), 2
            else:
                a, b, column = layer.inputs, weight.transpose(1, 2), 1
            if bias is None:
                torch.bmm(a, b, out=layer.z)
            else:
                torch.baddbmm(bias.unsqueeze(column), a, b, out=layer.z)
            if layer is not self.layers[-1]:
                after = self.layers[i + 1].inputs
                if layer.linear.relu:
                    torch.clamp_min(layer.z, 0, out=after)
                else:
                    after.copy_(layer.z)
        last = self.layers[-1]
        torch.log_softmax(last.z, 1, out=last.d)
        return last.d.gather(1, y[:, None])[:, 0].neg_()

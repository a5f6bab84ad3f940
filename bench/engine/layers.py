"""The layers of a chain, forward and backward without autograd, on buffers that are reused from step to step.

A map is a tensor [A, H, W, Z] in memory: batch innermost (channels, H, W, batch), channels last (batch, H, W,
channels) or both within (1, H, W, batch and channels). Poolings and ReLU do not care which.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

aten = torch.ops.aten
MapShape = tuple[int, int, int]  # channels, H, W


@dataclass
class Param:
    """A parameter as the current device's view, and where its gradient goes."""

    w: Tensor
    g: Tensor


class Layer(ABC):
    """`forward` keeps what `backward` needs; what either returns is valid until it is called again."""

    trains = False  # it has parameters

    def __init__(self, like: Tensor) -> None:
        self._like, self._buffers = like, dict[str, Tensor]()

    def buffer(self, name: str, *shape: int) -> Tensor:
        """A buffer with the place and strides of a new one, whatever batch was larger before."""
        numel, flat = math.prod(shape), self._buffers.get(name)
        if flat is None or len(flat) < numel:
            flat = self._buffers[name] = self._like.new_empty(numel)
        return flat[:numel].view(shape)

    def size(self, batch: int) -> None:  # noqa: B027
        """Takes its buffers for batches of this size."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor: ...

    @abstractmethod
    def backward(self, g: Tensor, down: bool) -> Tensor:
        """Writes the parameters' gradients; the gradient of the input, if it is asked for (`down`)."""


class Order(Enum):
    """How a map lies in memory: the place of batch, channels, H and W (0 to 3), outermost first."""

    SAMPLES = (0, 1, 2, 3)
    INNER = (1, 2, 3, 0)
    LAST = (0, 2, 3, 1)
    MIDDLE = (2, 3, 0, 1)

    def sizes(self, whole: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
        a, b, c, d = (whole[place] for place in self.value)
        return a, b, c, d

    def form(self, batch: int, shape: MapShape) -> tuple[int, ...]:
        """The shape in which layers pass it on."""
        channels, height, width = shape
        match self:
            case Order.SAMPLES:
                return batch, channels * height * width
            case Order.MIDDLE:
                return 1, height, width, batch * channels
            case _:
                return self.sizes((batch, *shape))


class Move(Layer):
    """From one order to another; samples are where a chain begins and what `Flatten` makes."""

    def __init__(self, like: Tensor, shape: MapShape, old: Order, new: Order) -> None:
        super().__init__(like)
        self.shape, self.old, self.new = shape, old, new
        self.there = [old.value.index(place) for place in new.value]
        self.back = [new.value.index(place) for place in old.value]

    def size(self, batch: int) -> None:
        whole = (batch, *self.shape)
        self.olds, self.news = self.old.sizes(whole), self.new.sizes(whole)
        self.y, self.dx = self.buffer("y", *self.news), self.buffer("dx", *self.olds)
        self.passed = self.y.view(self.new.form(batch, self.shape))
        self.returned = self.dx.view(self.old.form(batch, self.shape))

    def forward(self, x: Tensor) -> Tensor:
        _permute(x, self.olds, self.there, self.y)
        return self.passed

    def backward(self, g: Tensor, down: bool) -> Tensor:
        _permute(g, self.news, self.back, self.dx)
        return self.returned


def _permute(x: Tensor, sizes: Sequence[int], places: list[int], out: Tensor) -> None:
    """Where the dimensions before a cut only change places with those after it, torch copies a transposed matrix."""
    cut = places[0]
    if places == [(cut + i) % 4 for i in range(4)]:
        rows = math.prod(sizes[:cut])
        out.view(-1, rows).copy_(x.reshape(rows, -1).t())
    else:
        out.copy_(x.view(sizes).permute(places))


class AsRows(Layer):
    """Samples of any shape as rows, when no map came before."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    def backward(self, g: Tensor, down: bool) -> Tensor:
        return g


class Relu(Layer):
    """In place: no layer that may come before it needs what it gave."""

    def forward(self, x: Tensor) -> Tensor:
        self.y = x.clamp_min_(0)
        return self.y

    def backward(self, g: Tensor, down: bool) -> Tensor:
        aten.threshold_backward.grad_input(g, self.y, 0, grad_input=g)
        return g


class Bias(Layer):
    """One number per channel, in place; channels are outermost or, with the batch in the middle, innermost."""

    trains = True

    def __init__(self, like: Tensor, bias: Param, order: Order) -> None:
        super().__init__(like)
        first = order is Order.INNER
        self.bias, self.others = bias, 1 if first else 0
        self.matrix = (len(bias.g), -1) if first else (-1, len(bias.g))
        self.column = (-1, 1) if first else (1, -1)

    def forward(self, x: Tensor) -> Tensor:
        x.view(self.matrix).add_(self.bias.w.view(self.column))
        return x

    def backward(self, g: Tensor, down: bool) -> Tensor:
        torch.sum(g.reshape(self.matrix), self.others, out=self.bias.g)
        return g


class Pairs(Layer):
    """Max pooling of 2x2 by 2x2. As in torch the first of equals wins: along a row, then down."""

    def __init__(self, like: Tensor, shape: MapShape, order: Order) -> None:
        super().__init__(like)
        self.shape, self.order = shape, order
        _, self.height, self.width = shape

    def size(self, batch: int) -> None:
        outer, _, _, last = self.order.form(batch, self.shape)
        rows, columns = self.height // 2, self.width // 2
        self.y = self.buffer("y", outer, rows, columns, last)
        self.across = self.buffer("across", outer, 2 * rows, columns, last)
        self.upper, self.lower = self.across[:, 0::2], self.across[:, 1::2]
        self.dacross = self.buffer("dacross", outer, 2 * rows, columns, last)
        self.dupper, self.dlower = self.dacross[:, 0::2], self.dacross[:, 1::2]
        self.dx = self.buffer("dx", outer, self.height, self.width, last).zero_()  # stays 0 in an odd row or column
        self.dleft, self.dright = self._cut(self.dx)

    def _cut(self, x: Tensor) -> tuple[Tensor, Tensor]:
        even = x[:, : self.height // 2 * 2, : self.width // 2 * 2]
        return even[:, :, 0::2], even[:, :, 1::2]

    def forward(self, x: Tensor) -> Tensor:
        self.left, self.right = self._cut(x)
        torch.maximum(self.left, self.right, out=self.across)
        return torch.maximum(self.upper, self.lower, out=self.y)

    def backward(self, g: Tensor, down: bool) -> Tensor:
        torch.ge(self.upper, self.lower, out=self.dupper)
        self.dupper.mul_(g)
        torch.sub(g, self.dupper, out=self.dlower)
        torch.ge(self.left, self.right, out=self.dleft)
        self.dleft.mul_(self.dacross)
        torch.sub(self.dacross, self.dleft, out=self.dright)
        return self.dx


class MaxPool(Layer):
    """Max pooling of any size and stride. A map's memory is that of a channels-last tensor [A, Z, H, W]."""

    def __init__(self, like: Tensor, kernel: tuple[int, int], stride: tuple[int, int]) -> None:
        super().__init__(like)
        self.kernel, self.stride = list(kernel), list(stride)

    def forward(self, x: Tensor) -> Tensor:
        self.x = x.permute(0, 3, 1, 2)
        y, self.index = aten.max_pool2d_with_indices(self.x, self.kernel, self.stride)
        found: Tensor = y.permute(0, 2, 3, 1).contiguous()
        return found

    def backward(self, g: Tensor, down: bool) -> Tensor:
        dx = aten.max_pool2d_with_indices_backward(
            g.permute(0, 3, 1, 2), self.x, self.kernel, self.stride, [0, 0], [1, 1], False, self.index
        )
        found: Tensor = dx.permute(0, 2, 3, 1).contiguous()
        return found


class Mean(Layer):
    """The average over H and W, as a map of one pixel."""

    def forward(self, x: Tensor) -> Tensor:
        self.shape = x.shape
        return x.mean((1, 2), keepdim=True)

    def backward(self, g: Tensor, down: bool) -> Tensor:
        return (g / (self.shape[1] * self.shape[2])).expand(self.shape).contiguous()


class FullyConnected(Layer):
    trains = True

    def __init__(self, like: Tensor, weight: Param, bias: Param | None) -> None:
        super().__init__(like)
        self.weight, self.bias = weight, bias

    def size(self, batch: int) -> None:
        outer, inner = self.weight.g.shape
        self.y, self.dx = self.buffer("y", batch, outer), self.buffer("dx", batch, inner)

    def forward(self, x: Tensor) -> Tensor:
        self.x = x
        if self.bias is None:
            return torch.mm(x, self.weight.w.T, out=self.y)
        return torch.addmm(self.bias.w, x, self.weight.w.T, out=self.y)

    def backward(self, g: Tensor, down: bool) -> Tensor:
        torch.mm(g.T, self.x, out=self.weight.g)
        if self.bias is not None:
            torch.sum(g, 0, out=self.bias.g)
        return torch.mm(g, self.weight.w, out=self.dx) if down else g

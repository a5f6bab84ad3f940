"""From a chain of modules to layers that run without autograd: in which order, and in which layout."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from bench.engine.convolutions import Geometry, Im2col, TorchConvolution, prefers_im2col
from bench.engine.layers import (
    AsRows,
    Bias,
    FullyConnected,
    Layer,
    MapShape,
    MaxPool,
    Mean,
    Move,
    Order,
    Pairs,
    Param,
    Relu,
)
from bench.engine.spectral import Spectral, fft_is_cheaper


def compiled(
    modules: Sequence[nn.Module], shape: tuple[int, ...], batch: int, like: Tensor, params: Mapping[int, Param]
) -> list[Layer]:
    """The layers for samples of `shape`, fast in batches of `batch`; `params` by the id of a module's parameter."""
    return _Compiler(pool_first(modules), shape, batch, like, params).layers


def pool_first(modules: Sequence[nn.Module]) -> list[nn.Module]:
    """Maximum and ReLU commute: after the pooling there is less to do."""
    order: list[nn.Module] = []
    for module in modules:
        place = len(order)
        if isinstance(module, nn.MaxPool2d):
            while place and isinstance(order[place - 1], nn.ReLU):
                place -= 1
        if not (isinstance(module, nn.ReLU) and order and isinstance(order[-1], nn.ReLU)):
            order.insert(place, module)
    return order


class _Compiler:
    def __init__(
        self, modules: list[nn.Module], shape: tuple[int, ...], batch: int, like: Tensor, params: Mapping[int, Param]
    ) -> None:
        self.like, self.params, self.batch, self.layers = like, params, batch, list[Layer]()
        self.order = Order.SAMPLES
        self.bias: Param | None = None  # of a convolution whose output is still to be pooled
        if len(shape) == 3 and not isinstance(modules[0], nn.Linear | nn.Flatten):
            channels, height, width = shape
            self.shape: MapShape = (channels, height, width)
        else:
            self.layers.append(AsRows(like))
            self.shape = (math.prod(shape), 1, 1)
        for module in modules:
            if not isinstance(module, nn.MaxPool2d):
                self._add_bias()
            self._add(module)

    def _add_bias(self) -> None:
        if self.bias is not None:
            self.layers.append(Bias(self.like, self.bias, self.order))
            self.bias = None

    def _param(self, p: Tensor | None) -> Param | None:
        return None if p is None else self.params[id(p)]

    def _move(self, order: Order) -> None:
        if self.order is not order:
            self.layers.append(Move(self.like, self.shape, self.order, order))
            self.order = order

    def _add(self, module: nn.Module) -> None:
        like = self.like
        match module:
            case nn.Linear():
                self.layers.append(FullyConnected(like, self.params[id(module.weight)], self._param(module.bias)))
            case nn.ReLU():
                self.layers.append(Relu(like))
            case nn.Flatten():
                self._move(Order.SAMPLES)
            case nn.AdaptiveAvgPool2d():
                self._leave_samples()
                self.layers.append(Mean(like))
                self.shape = (self.shape[0], 1, 1)
            case nn.MaxPool2d():
                self._leave_samples()
                self._pool(pair(module.kernel_size), pair(module.stride))
            case nn.Conv2d():
                self._convolve(module)

    def _leave_samples(self) -> None:
        if self.order is Order.SAMPLES:
            self._move(Order.INNER)

    def _pool(self, kernel: tuple[int, int], stride: tuple[int, int]) -> None:
        channels, height, width = self.shape
        if kernel == stride == (2, 2):
            self.layers.append(Pairs(self.like, self.shape, self.order))
        else:
            self.layers.append(MaxPool(self.like, kernel, stride))
        self.shape = (channels, (height - kernel[0]) // stride[0] + 1, (width - kernel[1]) // stride[1] + 1)

    def _convolve(self, module: nn.Conv2d) -> None:
        at, weight, bias = Geometry(module, self.shape), self.params[id(module.weight)], self._param(module.bias)
        if prefers_im2col(module) and self.order in (Order.SAMPLES, Order.INNER):
            self._move(Order.INNER)
            self.layers.append(Im2col(self.like, at, weight))
            self.bias = bias
        elif fft_is_cheaper(at, self.batch):
            self._move(Order.MIDDLE)
            self.layers.append(Spectral(self.like, at, weight))
            self.bias = bias
        else:
            self._move(Order.LAST)
            self.layers.append(TorchConvolution(self.like, at, weight, bias))
        self.shape = (at.outer, at.rows, at.columns)


def pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])

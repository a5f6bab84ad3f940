"""From a chain of modules to layers that run without autograd: in which order, and in which layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from bench.engine.convolutions import ChannelsLast, Columns, Geometry, few
from bench.engine.layers import Bias, Dense, Enter, Flatten, Layer, MaxPool, Mean, Pairs, Param, Relu, Rows, Switch

Shape = tuple[int, int, int]
INNER, LAST = (1, 2, 3, 0), (0, 2, 3, 1)


def compiled(
    modules: Sequence[nn.Module], shape: tuple[int, ...], like: Tensor, params: Mapping[int, Param]
) -> list[Layer]:
    """The layers for samples of `shape`; `params` by the id of their module's parameters."""
    return _Compiler(pool_first(modules), shape, like, params).layers


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
        self, modules: list[nn.Module], shape: tuple[int, ...], like: Tensor, params: Mapping[int, Param]
    ) -> None:
        self.like, self.params, self.layers = like, params, list[Layer]()
        self.bias: Param | None = None  # of a batch-innermost convolution: added once its output is pooled
        self.flat = not any(isinstance(m, nn.Conv2d | nn.MaxPool2d | nn.AdaptiveAvgPool2d) for m in modules)
        if self.flat:
            self.layers.append(Rows(like))
        else:
            channels, height, width = shape
            self.shape: Shape = (channels, height, width)
            first = next((m for m in modules if isinstance(m, nn.Conv2d)), None)
            self.inner = first is None or few(first)
            self.layers.append(Enter(like, self.shape, INNER if self.inner else LAST))
        for module in modules:
            if not isinstance(module, nn.MaxPool2d):
                self._add_bias()
            self._add(module)

    def _add_bias(self) -> None:
        if self.bias is not None:
            self.layers.append(Bias(self.like, self.bias))
            self.bias = None

    def _param(self, p: nn.Parameter | None) -> Param | None:
        return None if p is None else self.params[id(p)]

    def _add(self, module: nn.Module) -> None:
        like = self.like
        match module:
            case nn.Linear():
                self.layers.append(Dense(like, self.params[id(module.weight)], self._param(module.bias)))
            case nn.ReLU():
                self.layers.append(Relu(like))
            case nn.Flatten():
                if not self.flat:
                    self.layers.append(Flatten(like, self.shape, self.inner))
                self.flat = True
            case nn.AdaptiveAvgPool2d():
                self.layers.append(Mean(like))
                self.shape = (self.shape[0], 1, 1)
            case nn.MaxPool2d():
                self._pool(_pair(module.kernel_size), _pair(module.stride))
            case nn.Conv2d():
                self._convolve(module)

    def _pool(self, kernel: tuple[int, int], stride: tuple[int, int]) -> None:
        channels, height, width = self.shape
        if kernel == stride == (2, 2):
            self.layers.append(Pairs(self.like, channels, height, width, self.inner))
        else:
            self.layers.append(MaxPool(self.like, kernel, stride))
        self.shape = (channels, (height - kernel[0]) // stride[0] + 1, (width - kernel[1]) // stride[1] + 1)

    def _convolve(self, module: nn.Conv2d) -> None:
        if self.inner and not few(module):
            self.layers.append(Switch(self.like, self.shape))
            self.inner = False
        at, weight, bias = Geometry(module, self.shape), self.params[id(module.weight)], self._param(module.bias)
        if self.inner:
            self.layers.append(Columns(self.like, at, weight))
            self.bias = bias
        else:
            self.layers.append(ChannelsLast(self.like, at, weight, bias))
        self.shape = (at.outer, at.rows, at.columns)


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])

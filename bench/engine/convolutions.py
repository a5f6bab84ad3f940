"""Convolutions of a chain: as a matrix product with the batch innermost, or torch's own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bench.engine.layers import Layer, Param, aten


def prefers_im2col(layer: nn.Conv2d) -> bool:
    """So few channels that a matrix product with the batch innermost is faster than torch's convolution (measured)."""
    return layer.in_channels == 1 or (layer.in_channels < 8 and layer.out_channels < 32)


def margins(layer: nn.Conv2d) -> tuple[int, int, int, int]:
    """Zeros above, below, left and right."""
    if layer.padding == "same":
        vertical, horizontal = (k - 1 for k in layer.kernel_size)
        return vertical // 2, vertical - vertical // 2, horizontal // 2, horizontal - horizontal // 2
    vertical, horizontal = (0, 0) if isinstance(layer.padding, str) else layer.padding
    return vertical, vertical, horizontal, horizontal


class Geometry:
    """The sizes of one convolution of a map [C, H, W]."""

    def __init__(self, layer: nn.Conv2d, shape: tuple[int, int, int]) -> None:
        self.channels, self.height, self.width = shape
        self.outer, self.kernel, self.stride = layer.out_channels, layer.kernel_size, layer.stride
        self.up, down, self.left, right = margins(layer)
        self.even = self.up == down and self.left == right
        self.padded = any((self.up, down, self.left, right))
        self.full = self.height + self.up + down, self.width + self.left + right
        self.rows, self.columns = (
            (f - k) // s + 1 for f, k, s in zip(self.full, self.kernel, self.stride, strict=True)
        )

    def inside(self, x: Tensor) -> Tensor:
        """The part of a padded map [A, H, W, Z] that is not padding."""
        return x[:, self.up : self.up + self.height, self.left : self.left + self.width]


class Im2col(Layer):
    """Batch innermost: the product of the weights [O, C*k*k] and what each of them sees [C*k*k, rows*columns*B]."""

    trains = True

    def __init__(self, like: Tensor, geometry: Geometry, weight: Param) -> None:
        super().__init__(like)
        self.at, self.weight = geometry, weight

    def size(self, batch: int) -> None:
        at = self.at
        self.batch = batch
        if at.padded:
            self.wide = self.buffer("wide", at.channels, *at.full, batch).zero_()
            self.middle = at.inside(self.wide)
        pixels, seen = at.rows * at.columns * batch, at.channels * at.kernel[0] * at.kernel[1]
        self.seen = self.buffer("seen", seen, pixels)
        self.windows = self.seen.view(at.channels, *at.kernel, at.rows, at.columns, batch)
        self.y = self.buffer("y", at.outer, pixels)
        self.map = self.y.view(at.outer, at.rows, at.columns, batch)
        self.dweight = self.buffer("dweight", seen, at.outer)

    def _shifts(self, x: Tensor) -> Tensor:
        """[C, k, k, rows, columns, B]: the (padded) map, shifted by each place in the kernel."""
        at, b = self.at, self.batch
        height, width = at.full
        row, pixel, channel = width * b, b, height * width * b
        strides = (channel, row, pixel, at.stride[0] * row, at.stride[1] * pixel, 1)
        return x.as_strided(self.windows.shape, strides)

    def forward(self, x: Tensor) -> Tensor:
        if self.at.padded:
            self.middle.copy_(x)
            x = self.wide
        self.windows.copy_(self._shifts(x))
        torch.mm(self.weight.w.flatten(1), self.seen, out=self.y)
        return self.map

    def backward(self, g: Tensor, down: bool) -> Tensor:
        flat = g.reshape(self.at.outer, -1)
        torch.mm(self.seen, flat.T, out=self.dweight)
        self.weight.g.flatten(1).copy_(self.dweight.T)
        if not down:
            return g
        torch.mm(self.weight.w.flatten(1).T, flat, out=self.seen)  # no longer needed: its gradient takes its place
        dx = self.buffer("dx", self.at.channels, *self.at.full, self.batch).zero_()
        shifts = self._shifts(dx)
        for i in range(self.at.kernel[0]):
            for j in range(self.at.kernel[1]):
                shifts[:, i, j].add_(self.windows[:, i, j])
        return self.at.inside(dx)


class TorchConvolution(Layer):
    """torch's own convolution, on a channels-last map; for a few pixels it is faster channel by channel."""

    trains = True

    def __init__(self, like: Tensor, geometry: Geometry, weight: Param, bias: Param | None) -> None:
        super().__init__(like)
        self.at, self.weight, self.bias = geometry, weight, bias
        few_pixels = geometry.height * geometry.width <= 16
        self.format = torch.contiguous_format if few_pixels else torch.channels_last
        self.w = torch.empty_like(weight.g, memory_format=self.format)
        self.padding = [geometry.up, geometry.left] if geometry.even else [0, 0]

    def size(self, batch: int) -> None:
        if not self.at.even:
            self.wide = self.buffer("wide", batch, *self.at.full, self.at.channels).zero_()
            self.middle = self.at.inside(self.wide)

    def forward(self, x: Tensor) -> Tensor:
        if not self.at.even:
            self.middle.copy_(x)
            x = self.wide
        self.x = self._planes(x)
        bias = None if self.bias is None else self.bias.w
        y = torch.conv2d(self.x, self.w.copy_(self.weight.w), bias, self.at.stride, self.padding)
        return y.permute(0, 2, 3, 1).contiguous()

    def backward(self, g: Tensor, down: bool) -> Tensor:
        wanted, outer = [down, True, self.bias is not None], None if self.bias is None else [self.at.outer]
        none, one = [0, 0], [1, 1]
        dx, dweight, dbias = aten.convolution_backward(
            self._planes(g), self.x, self.w, outer, self.at.stride, self.padding, one, False, none, 1, wanted
        )
        self.weight.g.copy_(dweight)
        if self.bias is not None:
            self.bias.g.copy_(dbias)
        if not down:
            return g
        found: Tensor = dx.permute(0, 2, 3, 1)
        return (found if self.at.even else self.at.inside(found)).contiguous()

    def _planes(self, x: Tensor) -> Tensor:
        return x.permute(0, 3, 1, 2).contiguous(memory_format=self.format)

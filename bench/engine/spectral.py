"""A convolution as a product of spectra: for large kernels and many channels a third of the arithmetic, and exact.

The transforms are products with cosine and sine matrices, so any size will do, padding is only a matter of where the
matrices begin, and the numbers can lie as they are needed: one matrix product over the channels for each frequency.
Complex numbers are two planes, real and imaginary; of the frequencies along a row, half say it all.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bench.engine.convolutions import Geometry
from bench.engine.layers import Layer, Param

SLOWER = 2.2  # how much slower small and batched products are than torch's convolution, per operation (measured)
BLOCK = 2**19  # numbers that are multiplied at a time
LARGEST = 2**25  # numbers in the spectrum of the weights


def fft_is_cheaper(at: Geometry, batch: int) -> bool:
    """Fewer operations than the convolution, forward and backward, with something to spare?"""
    if at.stride != (1, 1):
        return False
    (height, width), taps = at.full, at.kernel[0] * at.kernel[1]
    half = width // 2 + 1
    pairs, spectrum = at.channels * at.outer, height * half
    if 2 * spectrum * pairs > LARGEST:
        return False

    def transform(maps: int, rows: int, columns: int) -> int:
        return 2 * maps * (rows * columns * 2 * half + 4 * rows * height * half)

    products = 3 * 8 * batch * pairs * spectrum
    maps = transform(batch * at.channels, at.height, at.width) + transform(batch * at.outer, at.rows, at.columns)
    weights = 2 * 2 * 2 * spectrum * taps * pairs
    return SLOWER * (products + 2 * maps + weights) < 3 * 2 * batch * pairs * taps * at.rows * at.columns


def _angles(like: Tensor, frequencies: int, first: int, count: int, size: int) -> Tensor:
    """[frequencies, places] of `count` places that begin at `first` in a period of `size`."""
    numbers = torch.arange(frequencies, dtype=torch.float64, device=like.device)
    places = torch.arange(first, first + count, dtype=torch.float64, device=like.device)
    return torch.outer(numbers, places) * (2 * math.pi / size)


def _twice(width: int, like: Tensor) -> Tensor:
    """Each of the half of the frequencies along a row stands for its mirror image too, if it has one."""
    weight = torch.full((width // 2 + 1,), 2 / width, dtype=torch.float64, device=like.device)
    weight[0] = 1 / width
    if width % 2 == 0:
        weight[-1] = 1 / width
    return weight


class _Transform:
    """Between maps [rows, columns, N], which lie at `first` in a larger one, and their spectra [2, frequencies, N]."""

    def __init__(self, like: Tensor, full: tuple[int, int], first: tuple[int, int], size: tuple[int, int]) -> None:
        (self.height, width), (self.rows, columns) = full, size
        angle = _angles(like, width // 2 + 1, first[1], columns, width)
        across = torch.cat([angle.cos(), -angle.sin()])  # [planes and frequencies, columns]
        self.across, self.across_back = across.to(like), (across.T * _twice(width, like).repeat(2)).to(like)
        angle = _angles(like, self.height, first[0], self.rows, self.height)
        cos, sin = angle.cos(), angle.sin()
        real, imaginary = torch.stack([cos, sin], 2).flatten(1), torch.stack([-sin, cos], 2).flatten(1)
        down = torch.cat([real, imaginary])  # [planes and frequencies, rows and planes]
        self.down, self.down_back = down.to(like), (down.T / self.height).to(like)

    def there(self, x: Tensor, between: Tensor, out: Tensor) -> None:
        """x [rows, columns, N]; between [rows, planes and half the frequencies, N]; out [2, frequencies, N]"""
        torch.bmm(self.across.expand(self.rows, -1, -1), x, out=between)
        torch.mm(self.down, between.view(2 * self.rows, -1), out=out.view(2 * self.height, -1))

    def back(self, spectrum: Tensor, between: Tensor, out: Tensor) -> None:
        torch.mm(self.down_back, spectrum.view(2 * self.height, -1), out=between.view(2 * self.rows, -1))
        torch.bmm(self.across_back.expand(self.rows, -1, -1), between, out=out)


def _taps(like: Tensor, full: tuple[int, int], kernel: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """From the places of a kernel to its spectrum [planes and frequencies, places], and back."""
    (height, width), (rows, columns) = full, kernel
    half = width // 2 + 1
    down = _angles(like, height, 0, rows, height)[:, None, :, None]
    across = _angles(like, half, 0, columns, width)[None, :, None, :]
    angle = (down + across).view(height * half, rows * columns)
    there = torch.cat([angle.cos(), -angle.sin()])
    weight = _twice(width, like).repeat(2 * height) / height
    return there.to(like), (there.T * weight).to(like)


def _product(a: Tensor, b: Tensor, sign: int, out: Tensor) -> None:
    """For every frequency a times b (sign 1), or a times b's conjugate (sign -1); a few at a time, as caches are
    small."""
    many = max(1, BLOCK // (a[:, 0].numel() + b[:, 0].numel() + out[:, 0].numel()))
    for c, d, to in zip(*(torch.split(part, many, 1) for part in (a, b, out)), strict=True):
        torch.bmm(c[0], d[0], out=to[0])
        to[0].baddbmm_(c[1], d[1], alpha=-sign)
        torch.bmm(c[1], d[0], out=to[1])
        to[1].baddbmm_(c[0], d[1], alpha=sign)


class Spectral(Layer):
    """On maps [1, H, W, batch and channels]; a convolution is the correlation with its weights."""

    trains = True

    def __init__(self, like: Tensor, at: Geometry, weight: Param) -> None:
        super().__init__(like)
        self.at, self.weight = at, weight
        self.half = at.full[1] // 2 + 1
        self.outside = _Transform(like, at.full, (at.up, at.left), (at.height, at.width))
        self.inside = _Transform(like, at.full, (0, 0), (at.rows, at.columns))
        self.taps, self.taps_back = _taps(like, at.full, (at.kernel[0], at.kernel[1]))
        spectrum = at.full[0] * self.half
        self.places = like.new_empty(*at.kernel, at.channels, at.outer)
        self.spectrum = like.new_empty(2, spectrum, at.channels, at.outer)

    def size(self, batch: int) -> None:
        at, half = self.at, self.half
        inputs, outputs, spectrum = batch * at.channels, batch * at.outer, at.full[0] * half
        self.x = self.buffer("x", 2, spectrum, batch, at.channels)
        self.dx = self.buffer("dx", 2, spectrum, batch, at.channels)
        self.y = self.buffer("y", 2, spectrum, batch, at.outer)  # and its gradient
        self.inputs = self.buffer("inputs", at.height, 2 * half, inputs)
        self.outputs = self.buffer("outputs", at.rows, 2 * half, outputs)
        self.map = self.buffer("map", at.rows, at.columns, outputs)
        self.dmap = self.buffer("dmap", at.height, at.width, inputs)

    def forward(self, x: Tensor) -> Tensor:
        self.outside.there(x[0], self.inputs, self.x)
        self.places.copy_(self.weight.w.permute(2, 3, 1, 0))
        torch.mm(self.taps, self.places.view(len(self.taps_back), -1), out=self.spectrum.view(len(self.taps), -1))
        _product(self.x, self.spectrum, -1, self.y)
        self.inside.back(self.y, self.outputs, self.map)
        return self.map[None]

    def backward(self, g: Tensor, down: bool) -> Tensor:
        self.inside.there(g[0], self.outputs, self.y)
        if down:
            _product(self.y, self.spectrum.transpose(2, 3), 1, self.dx)
            self.outside.back(self.dx, self.inputs, self.dmap)
        _product(self.x.transpose(2, 3), self.y, -1, self.spectrum)  # no longer needed: its gradient takes its place
        torch.mm(self.taps_back, self.spectrum.view(len(self.taps), -1), out=self.places.view(len(self.taps_back), -1))
        self.weight.g.copy_(self.places.permute(3, 2, 0, 1))
        return self.dmap[None]

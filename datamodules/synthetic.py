"""Stand-ins for data sets that are not here: `dataset.source=synthetic`.

A sample is a number. Its class is the number modulo the classes, and its pixels, the pattern of the class plus noise
hashed from the number, are computed when a batch is made: the same on every machine, and nothing is stored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from datamodules.base import DataError, Dataset, Loaded, Split

CONTRAST = 210.0  # of the patterns, over the root of the number of pixels: a linear model learns them, not at once
NOISE = 128  # grey levels
CELLS = 4  # a pattern is made of 4 x 4 even fields


@dataclass(frozen=True, kw_only=True)
class _Known(Dataset):
    """A data set whose size and shape are known, so that it can be imitated; private, not itself one to choose."""

    sources: ClassVar[tuple[str, ...]] = ("auto", "synthetic")
    size: ClassVar[tuple[int, int]]
    classes: ClassVar[int]
    shape: ClassVar[tuple[int, ...]]

    samples: int | None = None  # training samples of source=synthetic; None: as many as the real set has

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples is None:
            return
        if self.source != "synthetic":
            raise DataError("dataset.samples is for dataset.source=synthetic: leave it out, or add that.")
        if self.samples < self.classes:
            raise DataError(f"dataset.samples={self.samples} is not one a class: use {self.classes} or more.")

    def available(self) -> str | None:
        return "synthetic" if self.source == "synthetic" else self.found()

    def load(self) -> Loaded:
        return self.imitation() if self.source == "synthetic" else self.read()

    def found(self) -> str | None:
        """Where the real data are."""
        raise NotImplementedError

    def read(self) -> Loaded:
        """The real data."""
        raise NotImplementedError

    def imitation(self) -> Loaded:
        train, test = self.size
        if self.samples is not None:
            train, test = self.samples, min(test, max(self.classes, round(self.samples * test / train)))
        pixels = Pixels(self.classes, self.shape)
        channels = self.shape[0] if len(self.shape) == 3 else 1
        return Loaded(
            train=_numbers(0, train, self.classes),
            test=_numbers(train, test, self.classes),
            classes=self.classes,
            shape=self.shape,
            source="synthetic",
            scale=1 / 255,
            mean=(pixels.mean,) * channels,
            std=(pixels.std,) * channels,
            deviation="synthetic: patterns and noise, not the data set",
            pixels_of=pixels,
        )


@dataclass(frozen=True)
class Pixels:
    """Sample numbers [B] -> uint8 [B, *shape]."""

    classes: int
    shape: tuple[int, ...]

    @property
    def contrast(self) -> float:
        return min(CONTRAST / math.sqrt(math.prod(self.shape)), 36.0)  # the deviation; 36 * sqrt(3) still fits a byte

    @property
    def mean(self) -> float:
        return (63 + (NOISE - 1) / 2) / 255

    @property
    def std(self) -> float:
        return math.hypot(self.contrast, math.sqrt((NOISE**2 - 1) / 12)) / 255

    @cached_property
    def patterns(self) -> Tensor:
        """[classes, pixels], 1 to 125."""
        shape = self.shape if len(self.shape) == 3 else (1, *[math.isqrt(math.prod(self.shape))] * 2)
        rng = np.random.RandomState(0)  # whose stream numpy has frozen for good
        cells = rng.uniform(-1, 1, (self.classes, shape[0], CELLS, CELLS)) * self.contrast * math.sqrt(3)
        rows, columns = (np.arange(side) * CELLS // side for side in shape[1:])
        grey = 63 + np.round(cells[:, :, rows][:, :, :, columns])
        return torch.from_numpy(grey.reshape(self.classes, -1).astype(np.uint8))

    def __call__(self, numbers: Tensor) -> Tensor:
        pixels = math.prod(self.shape)
        word = torch.arange(-(-pixels // 4), device=numbers.device)  # one hash gives the noise of four pixels
        h = _mix(_mix(numbers[:, None] * 0x9E3779B1 + 0x7F4A7C15) + word * 0x85EBCA6B)
        noise = h.to(torch.int32).view(torch.uint8)[:, :pixels] % NOISE
        patterns = self.patterns.to(numbers.device)
        return (patterns[numbers % self.classes] + noise).reshape(len(numbers), *self.shape)


def _mix(h: Tensor) -> Tensor:
    """A hash of 32 bits, in the low half of 64."""
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
        h = h & 0xFFFFFFFF
        h = (h ^ (h >> shift)) * factor
    h = h & 0xFFFFFFFF
    return h ^ (h >> 15)


def _numbers(first: int, count: int, classes: int) -> Split:
    x = torch.from_numpy(first + np.random.RandomState(1).permutation(count).astype(np.int64))
    return Split(x, x % classes)

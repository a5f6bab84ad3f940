"""What a data set is: a frozen dataclass that loads itself as whole tensors, and the defaults of runs on it.

A new data set is one new file in this folder with a subclass of `Dataset`; its name in lower case is its CLI name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor


class DataError(ValueError):
    """What the user asked for cannot be had; the message is one sentence that says what would work."""


@dataclass(frozen=True)
class Split:
    x: Tensor  # [n, ...] uint8, or float for tabular data
    y: Tensor  # [n] long

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Loaded:
    """A whole data set in memory, as stored; `inputs` turns a batch of it into what a model sees."""

    train: Split
    test: Split
    classes: int
    shape: tuple[int, ...]  # of one input
    source: str  # where it came from, for the record
    scale: float
    mean: tuple[float, ...]  # per channel, after scaling
    std: tuple[float, ...]

    def inputs(self, x: Tensor, normalise: bool, dtype: torch.dtype = torch.float32) -> Tensor:
        """[B, ...] as stored -> [B, *shape]."""
        x = x.reshape(len(x), *self.shape).to(dtype) * self.scale
        if not normalise:
            return x
        per_channel = (-1, *[1] * (len(self.shape) - 1))
        mean = torch.tensor(self.mean, dtype=dtype, device=x.device).reshape(per_channel)
        std = torch.tensor(self.std, dtype=dtype, device=x.device).reshape(per_channel)
        return (x - mean) / std


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Fields are what a user may choose (`dataset.source=env`); class variables are what is known beforehand."""

    title: ClassVar[str]
    defaults: ClassVar[Mapping[str, Any]]  # keys of a run on this data set, below protocol and command line
    sources: ClassVar[tuple[str, ...]] = ("auto",)  # what `source` may be
    size: ClassVar[tuple[int, int] | None] = None  # training and test samples
    classes: ClassVar[int | None] = None

    source: str = "auto"

    def __post_init__(self) -> None:
        if self.source not in self.sources:
            name = type(self).__name__.lower()
            allowed = " or ".join(self.sources)
            raise DataError(f"dataset.source of {name} must be {allowed}, not {self.source!r}.")

    def load(self) -> Loaded:
        """Raises DataError, which says how to get the data, where it is missing."""
        raise NotImplementedError

    def available(self) -> str | None:
        """Where it would come from, without loading or downloading anything; None: not on this machine."""
        raise NotImplementedError

    def how_to_get(self) -> str:
        """For `python -m datamodules list` where it is not available; starts with a verb."""
        return ""

"""What a data set is: a frozen dataclass that loads itself as whole tensors, and the defaults of runs on it.

A new data set is one new file in this folder with a subclass of `Dataset`; its name in lower case is its CLI name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

PIECE = 1000  # images that are resized at a time
CROP = 4  # pixels of black around an image from which augmentation cuts


class DataError(ValueError):
    """What the user asked for cannot be had; the message is one sentence that says what would work."""


@lru_cache(maxsize=16)
def _per_channel(values: tuple[float, ...], dims: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Kept, since on a GPU making it anew for every batch would wait for the device."""
    return torch.tensor(values, dtype=dtype, device=device).reshape(-1, *[1] * (dims - 1))


@dataclass(frozen=True)
class Split:
    x: Tensor  # [n, ...] uint8, or float for tabular data; sample numbers where `Loaded.pixels_of` is set
    y: Tensor  # [n] long: classes; or float: numbers, in the unit of the data
    alike: Tensor | None = None  # [n] samples too alike to be on both sides of a split, e.g. frames of one film
    groups: Tensor | None = None  # [n] long, from 0: whose each sample is (a writer's, ...), for partition=natural

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Tensor) -> Split:
        alike, groups = (None if numbers is None else numbers[rows] for numbers in (self.alike, self.groups))
        return Split(self.x[rows], self.y[rows], alike, groups)


@dataclass(frozen=True)
class Loaded:
    """A whole data set in memory, as stored; `inputs` turns a batch of it into what a model sees."""

    train: Split
    test: Split
    classes: int  # as many as a model has outputs: 1 where labels are numbers
    shape: tuple[int, ...]  # of one input
    source: str  # where it came from, for the record
    scale: float
    mean: tuple[float, ...]  # per channel, after scaling
    std: tuple[float, ...]
    y_mean: float = 0.0  # labels that are numbers: a model sees (y - y_mean) / y_std
    y_std: float = 1.0
    deviation: str = ""  # how it differs from the published set, for the record
    augments: bool = False  # whether `augment` does anything
    resize: int | None = None  # side of the square that a model sees
    pixels_of: Callable[[Tensor], Tensor] | None = None  # sample numbers -> what is stored, where x holds numbers

    def inputs(self, x: Tensor, normalise: bool, dtype: torch.dtype = torch.float32) -> Tensor:
        """[B, ...] as stored or as `augment` returned it -> [B, *shape]."""
        x = self.pixels(x)
        stored = self.shape if self.resize is None else (self.shape[0], *x.shape[-2:])
        x = x.reshape(len(x), *stored).to(dtype) * self.scale
        if self.resize is not None:
            x = torch.nn.functional.interpolate(x, (self.resize, self.resize), mode="bilinear", antialias=True)
        if not normalise:
            return x
        mean, std = (_per_channel(tuple(v), len(self.shape), dtype, x.device) for v in (self.mean, self.std))
        return (x - mean) / std

    def labels(self, split: Split) -> Tensor:
        """As a model sees them."""
        return (split.y - self.y_mean) / self.y_std if split.y.is_floating_point() else split.y

    @property
    def shrinks(self) -> bool:
        """Whether every image becomes the same smaller one whenever it is used: then that is done once (`resized`)."""
        fixed = self.resize is not None and not self.augments and self.pixels_of is None
        return fixed and self.shape[-1] <= self.train.x.shape[-1]

    def resized(self) -> Loaded:
        """The same inputs, in single precision to the bit, of images that were scaled and resized beforehand."""
        if not self.shrinks:
            return self
        train, test = map(self._resized, (self.train, self.test))
        return replace(self, scale=1.0, resize=None, train=train, test=test)

    def _resized(self, split: Split) -> Split:
        x = torch.empty(len(split), *self.shape)
        for begin in range(0, len(x), PIECE):
            piece = slice(begin, begin + PIECE)
            x[piece] = self.inputs(split.x[piece], normalise=False)
        return replace(split, x=x)

    def pixels(self, x: Tensor) -> Tensor:
        """What is stored, for x that may be sample numbers."""
        return self.pixels_of(x) if self.pixels_of is not None and x.ndim == 1 else x

    def augment(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        """Each image of a training batch cut at a random place out of itself with a border, and mirrored or not."""
        if not self.augments:
            return x
        x = self.pixels(x)
        x = x.reshape(len(x), self.shape[0], *x.shape[-2:])
        n, _, height, width = x.shape
        top, left = (torch.from_numpy(rng.integers(0, 2 * CROP + 1, (n, 1))).to(x.device) for _ in range(2))
        mirrored = torch.from_numpy(rng.random((n, 1)) < 0.5).to(x.device)
        rows = top + torch.arange(height, device=x.device)
        columns = left + torch.arange(width, device=x.device)
        columns = torch.where(mirrored, columns.flip(1), columns)
        bordered = torch.nn.functional.pad(x, (CROP,) * 4).permute(0, 2, 3, 1)
        sample = torch.arange(n, device=x.device)[:, None, None]
        return bordered[sample, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()

    def with_validation(self, fraction: float, rng: np.random.Generator) -> Loaded:
        """Tested on a random part of the training data, which is then not trained on; what is alike stays together."""
        y = self.train.y
        alike = torch.arange(len(y)) if self.train.alike is None else self.train.alike
        _, member = torch.unique(alike, return_inverse=True)
        wanted = round(fraction * len(y))
        if not 0 < wanted < len(y):
            raise DataError(f"val_fraction={fraction} of {len(y)} samples leaves one side empty: use 0.01 to 0.9.")
        order = torch.from_numpy(rng.permutation(int(member.max()) + 1))
        before = torch.bincount(member)[order].cumsum(0) - torch.bincount(member)[order]
        held = torch.zeros(len(order), dtype=torch.bool)
        held[order[before < wanted]] = True
        held = held[member]
        if bool(held.all()):
            raise DataError(f"val_fraction={fraction} leaves no samples for training: use a smaller one.")
        return replace(
            self,
            train=self.train.take(~held),
            test=self.train.take(held),
            source=f"{self.source}; tested on {int(held.sum())} held-out training samples",
        )


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Fields are what a user may choose (`dataset.source=env`); class variables are what is known beforehand."""

    title: ClassVar[str]
    defaults: ClassVar[Mapping[str, Any]]  # keys of a run on this data set, below protocol and command line
    sources: ClassVar[tuple[str, ...]] = ("auto",)  # what `source` may be
    size: ClassVar[tuple[int, int] | None] = None  # training and test samples
    classes: ClassVar[int | None] = None
    grouped_by: ClassVar[str | None] = None  # what `Split.groups` stands for: "writer"; None: there are none

    source: str = "auto"

    def __post_init__(self) -> None:
        if self.source not in self.sources:
            name = type(self).__name__.lower()
            allowed = " or ".join(self.sources)
            raise DataError(f"dataset.source of {name} must be {allowed}, not {self.source!r}.")

    @classmethod
    def variants(cls) -> Sequence[Dataset]:
        """What `python -m datamodules list` shows."""
        return [cls()]

    def load(self) -> Loaded:
        """Raises DataError, which says how to get the data, where it is missing."""
        raise NotImplementedError

    def available(self) -> str | None:
        """Where it would come from, without loading or downloading anything; None: not on this machine."""
        raise NotImplementedError

    def require(self) -> None:
        """Downloads it where it is not here, or raises DataError, which says how to get it."""
        if self.available() is None:
            self.load()

    def summary(self) -> str:
        samples = "{:,} + {:,}".format(*self.size) if self.size else "?"
        groups = f", grouped by {self.grouped_by}" if self.grouped_by else ""
        labels = "labels are numbers" if self.classes == 1 else f"{self.classes or '?'} classes"
        return f"{samples} samples, {labels}{groups}"

    def how_to_get(self) -> str:
        """For `python -m datamodules list` where it is not available; starts with a verb."""
        return ""

    def fetch(self) -> str:
        """Gets it for later runs, where it is not here already; says where it came from."""
        found = self.available()
        if found is None:
            raise DataError(f"{type(self).__name__} cannot be downloaded: {self.how_to_get()}.")
        return found

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from datamodules.base import DataError, Loaded, Split
from datamodules.catalogue import data_sets

PIECE = 2**22  # numbers that are read at a time


@dataclass(frozen=True)
class Samples:
    """The training samples as a partition sees them: read-only, and nothing is read that it does not ask for."""

    train: Split
    name: str  # of the data set
    pixels: Callable[[Tensor], Tensor] | None = None  # as in Loaded

    @classmethod
    def of(cls, loaded: Loaded, name: str) -> Samples:
        return cls(loaded.train, name, loaded.pixels)

    def __len__(self) -> int:
        return len(self.train)

    @property
    def labels(self) -> NDArray[np.integer]:
        return _read_only(self.train.y)

    @property
    def groups(self) -> NDArray[np.integer]:
        """Whose each sample is, as numbers from 0; refused where the data set does not say."""
        if self.train.groups is None:
            raise DataError(
                f"dataset={self.name} does not say whose its samples are, which this partition needs: take "
                f"{', '.join(_grouped())}, or a data set of your own with Split.groups."
            )
        return _read_only(self.train.groups)

    def features(self, rows: slice | NDArray[np.integer] = slice(None)) -> NDArray[Any]:
        """These samples, each a row of numbers: bytes or floats, as they are stored. All at once may be much."""
        x = self.train.x[rows if isinstance(rows, slice) else torch.from_numpy(rows)]
        return _read_only((self.pixels(x) if self.pixels else x).reshape(len(x), -1))

    def pieces(self) -> Iterator[slice]:
        """All samples in order, so many at a time that their features are a few megabytes."""
        step = max(1, PIECE // self.features(slice(1)).size)
        return (slice(first, min(first + step, len(self))) for first in range(0, len(self), step))


def _read_only(values: Tensor) -> NDArray[Any]:
    """An array of the same memory, which is the data set's own."""
    array = (values.double() if values.dtype in (torch.half, torch.bfloat16) else values).numpy().view()
    array.flags.writeable = False
    return array


def _grouped() -> list[str]:
    """The data sets that have groups, and by what."""
    return [f"dataset={name} by {cls.grouped_by}" for name, cls in data_sets().items() if cls.grouped_by]

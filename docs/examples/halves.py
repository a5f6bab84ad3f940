"""A partition of your own: one class in one file.

python bench.py partition=docs/examples/halves.py
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamodules.base import DataError
from datamodules.partition import Partition
from datamodules.samples import Samples


@dataclass(frozen=True, kw_only=True)
class Halves(Partition):
    """Two worlds: the first devices hold the first half of the classes, the others the rest."""

    share: float = 0.5  # of the devices that hold the first half

    def deal(self, samples: Samples, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        first = round(self.share * clients)
        if not 0 < first < clients:
            raise DataError(f"partition.share={self.share} of {clients} clients leaves one half without a device.")
        low = samples.labels < np.median(np.unique(samples.labels))
        parts = ((low, first), (~low, clients - first))
        return [part for held, n in parts for part in np.array_split(rng.permutation(np.flatnonzero(held)), n)]

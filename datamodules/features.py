from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamodules.base import DataError
from datamodules.partition import Indices, Partition
from datamodules.samples import Samples

SOME = 5000  # samples from which the direction is found
TURNS = 30  # of power iteration
BLOCK = 100  # samples that are multiplied at a time
LEVELS = 2**16 - 1  # of measured numbers
LARGE = 2**18  # up to which its whole numbers go: with half a million a sample no sum reaches 2^53, so each is exact
Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Features(Partition):
    """Clients differ in how their samples look, not in their labels nor in how many they have.

    Within each class samples are sorted by the direction in which the samples of one class differ most (the first
    principal component of features less the mean of their class), and each client gets a slice, the same of every
    class. A share 1 - `skew` of each class is dealt at random instead, as SCAFFOLD's similarity does with labels.
    """

    skew: float = field(default=1.0, metadata={"min": 0, "max": 1})

    def deal(self, samples: Samples, clients: int, rng: np.random.Generator) -> list[Indices]:
        labels, scores = samples.labels, along(samples, rng)
        place = np.empty(len(samples))  # of a sample in its class, from 0 to 1
        for c in np.unique(labels):
            mine = rng.permutation(np.flatnonzero(labels == c))
            in_order, mixed = np.split(mine, [round(self.skew * len(mine))])
            for some in (in_order[np.argsort(scores[in_order], kind="stable")], mixed):
                place[some] = (np.arange(len(some)) + 0.5) / max(1, len(some))
        order = rng.permutation(len(samples))
        slices = np.array_split(order[np.argsort(place[order], kind="stable")], clients)
        return [slices[k] for k in rng.permutation(clients)]


def along(samples: Samples, rng: np.random.Generator) -> Array:
    """[n]: how far each sample lies in the direction in which those of one class differ most.

    All sums are of whole numbers and exact, so that their order, and with it threads and processors, do not matter.
    """
    scale = Scale.of(samples)
    some = np.sort(rng.choice(len(samples), min(SOME, len(samples)), replace=False))
    rows = scale(samples.features(some))
    _, member, sizes = np.unique(samples.labels[some], return_inverse=True, return_counts=True)
    blocks = [slice(first, first + BLOCK) for first in range(0, len(rows), BLOCK)]
    direction = rng.integers(-LARGE, LARGE, rows.shape[1]).astype(float)
    for _ in range(TURNS):
        score = _rounded(np.concatenate([rows[block].astype(float) @ direction for block in blocks]))
        score -= np.rint(np.bincount(member, score) / sizes)[member]
        direction = _rounded(sum((score[block] @ rows[block].astype(float) for block in blocks), np.zeros(1)))
    return np.concatenate([scale(samples.features(piece)).astype(float) @ direction for piece in samples.pieces()])


def _rounded(values: Array) -> Array:
    """To whole numbers, the largest of which is LARGE."""
    largest = np.abs(values).max()
    return np.rint(values / largest * LARGE) if largest else values


@dataclass(frozen=True)
class Scale:
    """Features as whole numbers: pixels as they are, measured numbers by their place in the range of their column."""

    low: Array
    high: Array

    @classmethod
    def of(cls, samples: Samples) -> Scale:
        kind = samples.features(slice(1)).dtype
        if kind == np.uint8:
            return cls(np.zeros(1), np.zeros(1))
        if kind.kind != "f":
            raise DataError(
                f"The features of {samples.name} are {kind}, neither pixels nor measured numbers: use a partition "
                f"that looks at labels."
            )
        ends = [(part.min(0), part.max(0)) for part in map(samples.features, samples.pieces())]
        low, high = zip(*ends, strict=True)
        return cls(np.min(low, 0).astype(float), np.max(high, 0).astype(float))

    def __call__(self, features: Array) -> NDArray[np.unsignedinteger]:
        if features.dtype == np.uint8:
            return features
        width = np.where(self.high > self.low, self.high - self.low, 1.0)
        return np.rint((features - self.low) / width * LEVELS).astype(np.uint16)

"""How far the clients' data are from the whole, beside how far clients of their sizes would be by chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamodules.base import DataError
from datamodules.features import Scale
from datamodules.partition import Indices
from datamodules.samples import Samples

Matrix = NDArray[Any]
SOME = 1000  # of a client's samples at a time


@dataclass(frozen=True)
class Distance:
    """[clients]: what was found, and what is expected of samples drawn at random."""

    found: Matrix
    chance: Matrix

    def __str__(self) -> str:
        low, high = self.found.min(), self.found.max()
        return f"{self.found.mean():.3f} on average, {low:.3f} to {high:.3f}; by chance {self.chance.mean():.3f}"


def of_labels(counts: Matrix, whole: Matrix) -> Distance:
    """Total variation between [clients, labels] and the [labels] of all: the share of a client's samples that would
    need another label. By chance: the mean size of normal deviations."""
    held, shares = counts.sum(axis=1, keepdims=True), whole / whole.sum()
    deviation = np.sqrt(shares * (1 - shares) / held * _left(held, int(whole.sum())))
    found = np.abs(counts / held - shares).sum(axis=1) / 2
    return Distance(found, np.sqrt(2 / np.pi) * deviation.sum(axis=1) / 2)


def of_features(samples: Samples, parts: Sequence[Indices]) -> Distance | None:
    """The length of the mean of a client's features, each less the mean of its class, so that labels do not count; in
    units of the root mean square length of one sample's. None: these are no features that could be measured."""
    try:
        scale = Scale.of(samples)
    except DataError:
        return None
    _, member = np.unique(samples.labels, return_inverse=True)
    sizes, n = np.bincount(member), len(samples)
    total, squares = 0.0, 0.0
    for piece in samples.pieces():
        x = scale(samples.features(piece)).astype(float)
        total = total + (member[piece] == np.arange(len(sizes))[:, None]).astype(float) @ x
        squares += float((x**2).sum())
    means: Matrix = total / sizes[:, None]
    spread = np.sqrt(max(squares - float(sizes @ (means**2).sum(axis=1)), 0.0) / n)

    def length(part: Indices) -> float:
        some = (part[first : first + SOME] for first in range(0, len(part), SOME))
        left = sum((scale(samples.features(rows)) - means[member[rows]]).sum(axis=0) for rows in some)
        return float(np.linalg.norm(left / len(part)))

    found = np.array([length(part) for part in parts])
    held = np.array([len(part) for part in parts])
    return Distance(found / spread if spread else found, np.sqrt(_left(held, n) / held))


def _left(held: Matrix, n: int) -> Matrix:
    """What of the variance is left where so many of n are drawn, none twice."""
    left: Matrix = np.clip(n - held, 0, None) / max(1, n - 1)
    return left

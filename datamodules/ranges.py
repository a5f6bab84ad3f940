from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from datamodules.base import DataError
from datamodules.partition import Indices, Partition
from datamodules.samples import Samples

TRIES = 100


@dataclass(frozen=True, kw_only=True)
class Ranges(Partition):
    """Fed2A: each client draws `n_min` to `n_max` samples in `c_min` to `c_max` classes.

    Size and number of classes are uniform, the class shares proportional to U(0, 1), at least one sample each. With
    `overlap` clients draw independently: samples are distinct within a client, but two clients may hold the same one
    (the paper's sizes add up to more than its data sets). Without it, what a class lacks is scaled off its holders.
    """

    by_class: ClassVar[bool] = True
    n_min: int = 900
    n_max: int = 1500
    c_min: int = 4
    c_max: int = 12
    overlap: bool = True

    def deal(self, samples: Samples, clients: int, rng: np.random.Generator) -> list[Indices]:
        classes, of_sample = np.unique(samples.labels, return_inverse=True)
        available = np.bincount(of_sample)
        self._check(available)
        asked = np.array([self._draw(available, rng) for _ in range(clients)])  # [clients, classes]
        wanted = asked if self.overlap else self._fit(asked, available, classes, rng)
        pools = [rng.permutation(np.flatnonzero(of_sample == c)) for c in range(len(classes))]
        parts: list[list[Indices]] = [[] for _ in range(clients)]
        for c, pool in enumerate(pools):
            ends = np.cumsum(wanted[:, c])
            for client in np.flatnonzero(wanted[:, c]):
                count = wanted[client, c]
                mine = rng.choice(pool, count, replace=False) if self.overlap else pool[ends[client] - count :][:count]
                parts[client].append(mine)
        return [np.concatenate(part) for part in parts]

    def remark(self, samples: Samples, parts: Sequence[Indices]) -> str | None:
        sizes = [len(part) for part in parts]
        if self.overlap or min(sizes) >= self.n_min:
            return None
        return (
            f"partition.overlap=false: clients were scaled down to {min(sizes)}-{max(sizes)} samples where "
            f"{self.n_min}-{self.n_max} were asked for, since no sample may go to two."
        )

    def _check(self, available: NDArray[np.integer]) -> None:
        if not 1 <= self.c_min <= self.c_max <= len(available):
            raise DataError(
                f"partition.c_min={self.c_min} and c_max={self.c_max} are impossible with {len(available)} classes: "
                f"use 1 <= c_min <= c_max <= {len(available)}."
            )
        if not self.c_max <= self.n_min <= self.n_max:
            raise DataError(
                f"partition.n_min={self.n_min} and n_max={self.n_max} are impossible: use "
                f"{self.c_max} (c_max, one sample of each class) <= n_min <= n_max."
            )
        most = int(np.sort(available)[-self.c_min :].sum())
        if most < self.n_max:
            raise DataError(
                f"partition.n_max={self.n_max} samples do not fit into {self.c_min} classes, the largest of which "
                f"hold {most}: use n_max={most} or a larger c_min."
            )

    def _draw(self, available: NDArray[np.integer], rng: np.random.Generator) -> Indices:
        """How many samples of each class one client takes."""
        size = int(rng.integers(self.n_min, self.n_max + 1))
        count = int(rng.integers(self.c_min, self.c_max + 1))
        for _ in range(TRIES):
            held = rng.choice(len(available), count, replace=False)
            if available[held].sum() >= size:
                break
        else:  # hardly any choice of classes holds so many samples
            held = np.argsort(available)[-count:]
        take = np.zeros(len(available), dtype=np.int64)
        take[held] = _apportion(size, rng.random(count), available[held])
        return take

    def _fit(
        self, asked: Indices, available: NDArray[np.integer], classes: NDArray[np.integer], rng: np.random.Generator
    ) -> Indices:
        """The same classes with fewer samples where clients together ask for more than a class has."""
        wanted = asked.copy()
        for c in np.flatnonzero(asked.sum(axis=0) > available):
            holders = np.flatnonzero(asked[:, c])
            if len(holders) > available[c]:
                raise DataError(
                    f"{len(holders)} of {len(asked)} clients would share the {available[c]} samples of class "
                    f"{classes[c]}: use fewer clients, a smaller partition.c_max, or partition.overlap=true."
                )
            wanted[holders, c] = _apportion(int(available[c]), asked[holders, c].astype(float), asked[holders, c])
        left = available - wanted.sum(axis=0)
        for client in rng.permutation(len(asked)):  # what a client lost it may get back from its other classes
            lost = int((asked[client] - wanted[client]).sum())
            for c in rng.permutation(np.flatnonzero(asked[client])):
                more = min(lost, int(left[c]))
                wanted[client, c] += more
                left[c] -= more
                lost -= more
        return wanted


def _apportion(total: int, shares: NDArray[np.floating], most: NDArray[np.integer]) -> Indices:
    """`total` in whole numbers proportional to `shares`, each from 1 to `most`; what one cannot take, others do."""
    parts = np.ones(len(shares), dtype=np.int64)
    weight = np.maximum(shares, 1e-12)
    while (missing := total - int(parts.sum())) > 0:
        ideal = np.where(parts < most, weight, 0.0)
        ideal *= missing / ideal.sum()
        step = np.minimum(np.floor(ideal), most - parts).astype(np.int64)
        if not step.any():  # fewer missing than there are places: one each to the largest remainders
            open_ = np.argsort(-ideal, kind="stable")[: min(missing, int((parts < most).sum()))]
            step[open_] = 1
        parts += step
    return parts

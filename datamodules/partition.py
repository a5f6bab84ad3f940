"""How training samples are dealt to clients. Pure numpy: (samples, clients, rng) -> one sorted index array per client.

No sample goes to two clients (a partition with `overlap` apart), and no client is empty. A new partition is a subclass
with a `deal` method; ranges.py, clusters.py, natural.py and features.py hold one more each.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamodules.base import DataError
from datamodules.samples import Samples

Indices = NDArray[np.int64]
COUNT = {"min": 1, "below": 2**63}


@dataclass(frozen=True, kw_only=True)
class Partition:
    by_class: ClassVar[bool] = False  # it deals by class: labels that are real numbers are refused

    def split(self, samples: Samples, clients: int, rng: np.random.Generator) -> list[Indices]:
        if not 1 <= clients <= len(samples):
            raise DataError(
                f"{len(samples)} samples cannot be dealt to {clients} clients: "
                f"each needs at least one, so use 1 to {len(samples)} clients."
            )
        parts: Any = self.deal(samples, clients, rng)
        what = f"deal of {type(self).__name__} in {sys.modules[type(self).__module__].__file__} returned"
        if not isinstance(parts, Sequence) or len(parts) != clients:
            found = f"{len(parts)} parts" if isinstance(parts, Sequence) else type(parts).__name__
            raise DataError(f"{what} {found}: it has to be a list of {clients}, one for each client.")
        return [_numbers(part, len(samples), client, what) for client, part in enumerate(parts)]

    def deal(self, samples: Samples, clients: int, rng: np.random.Generator) -> list[Indices]:
        raise NotImplementedError

    def remark(self, samples: Samples, parts: Sequence[Indices]) -> str | None:
        """What a split had to change in what was asked for; None: nothing."""
        return None


def _numbers(part: Any, samples: int, client: int, what: str) -> Indices:
    """A client's samples in order; refuses what are not some of the data set's, each once."""
    if not (isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype.kind in "iu"):
        array = isinstance(part, np.ndarray)
        found = f"{part.dtype} of shape {list(part.shape)}" if array else type(part).__name__
        raise DataError(f"{what} {found} for client {client}: it has to be a 1-D array of whole numbers.")
    if not len(part):
        raise DataError(f"{what} no samples for client {client}: every client needs at least one.")
    ordered: Indices = np.sort(part).astype(np.int64)
    if ordered[0] < 0 or ordered[-1] >= samples:
        bad = ordered[0] if ordered[0] < 0 else ordered[-1]
        raise DataError(f"{what} the sample {bad} for client {client}: they are numbered from 0 to {samples - 1}.")
    if len(again := ordered[1:][ordered[1:] == ordered[:-1]]):
        raise DataError(f"{what} the sample {again[0]} more than once for client {client}: it has to be there once.")
    return ordered


@dataclass(frozen=True, kw_only=True)
class Iid(Partition):
    """Every sample used, at random; sizes differ by one at most."""

    def deal(self, samples: Samples, clients: int, rng: np.random.Generator) -> list[Indices]:
        return np.array_split(rng.permutation(len(samples)), clients)


@dataclass(frozen=True, kw_only=True)
class Shards(Partition):
    """FedAgg's pathological split: sorted by label, cut, `per_client` shards to each (McMahan et al. 2017).

    Every sample used; shards differ by one sample at most.
    """

    by_class: ClassVar[bool] = True
    per_client: int = field(default=2, metadata=COUNT)

    def deal(self, samples: Samples, clients: int, rng: np.random.Generator) -> list[Indices]:
        labels = samples.labels
        shards = clients * self.per_client
        if not clients <= shards <= len(labels):
            raise DataError(
                f"{clients} clients with partition.per_client={self.per_client} shards need {shards} shards of at "
                f"least one sample, but there are {len(labels)} samples: use 1 to {len(labels) // clients}."
            )
        mixed = rng.permutation(len(labels))
        cuts = np.array_split(mixed[np.argsort(labels[mixed], kind="stable")], shards)
        order = rng.permutation(shards).reshape(clients, self.per_client)
        return [np.concatenate([cuts[shard] for shard in mine]) for mine in order]


@dataclass(frozen=True, kw_only=True)
class Classes(Partition):
    """FedLGA: each client holds exactly `per_client` classes, the same number of samples of each.

    Every class goes to as many clients as any other, give or take one. With `imbalance` xi half of the clients are
    large, and large / small = xi up to rounding. Since sizes are equal, the scarcest class limits them all: what the
    other classes have beyond that is not used (nothing is lost when classes are equal and the numbers divide).
    """

    by_class: ClassVar[bool] = True
    per_client: int = field(default=2, metadata=COUNT)
    imbalance: float = field(default=1.0, metadata={"min": 1})

    def deal(self, samples: Samples, clients: int, rng: np.random.Generator) -> list[Indices]:
        classes, of_sample = np.unique(samples.labels, return_inverse=True)
        available = np.bincount(of_sample)
        if not 1 <= self.per_client <= len(classes):
            raise DataError(
                f"partition.per_client={self.per_client} is impossible with {len(classes)} classes: "
                f"use 1 to {len(classes)}."
            )
        if not (math.isfinite(self.imbalance) and self.imbalance >= 1):
            raise DataError(f"partition.imbalance is large / small, so at least 1, not {self.imbalance}.")

        order = rng.permutation(clients)
        large = clients // 2
        holds = np.zeros((clients, len(classes)), dtype=bool)
        for client in order:  # the large clients first, so that they too are spread evenly
            least_used = np.lexsort((rng.random(len(classes)), holds.sum(axis=0)))
            holds[client, least_used[: self.per_client]] = True

        weight = np.ones(clients)
        weight[order[:large]] = self.imbalance
        demand = np.maximum(weight @ holds, 1e-9)  # 0 where there are more classes than places
        share = math.floor((available / demand).min() + 1e-9)
        if share < 1:
            scarce = int((available / demand).argmin())
            raise DataError(
                f"{holds[:, scarce].sum()} of {clients} clients would share the {available[scarce]} samples of class "
                f"{classes[scarce]}: use {self._advice(int(available.min()), len(classes))}."
            )
        take = np.floor(weight * share + 1e-9).astype(np.int64)

        parts: list[list[Indices]] = [[] for _ in range(clients)]
        for c in range(len(classes)):
            holders = rng.permutation(np.flatnonzero(holds[:, c]))
            pool = rng.permutation(np.flatnonzero(of_sample == c))
            cuts = np.split(pool, np.cumsum(take[holders]))[:-1]  # the last one is what nobody takes
            for client, part in zip(holders, cuts, strict=True):
                parts[client].append(part)
        return [np.concatenate(part) for part in parts]

    def _advice(self, scarcest: int, classes: int) -> str:
        if self.imbalance > 1:
            return "fewer clients or a smaller partition.imbalance"
        return f"at most {scarcest * classes // self.per_client} clients"


@dataclass(frozen=True, kw_only=True)
class Dirichlet(Partition):
    """Each class is spread over the clients by proportions ~ Dir(alpha); every sample used (Hsu et al. 2019).

    A client left with fewer than `min_size` samples is given random ones of the largest client's.
    """

    by_class: ClassVar[bool] = True
    alpha: float = field(default=0.3, metadata={"above": 0})
    min_size: int = field(default=10, metadata=COUNT)

    def deal(self, samples: Samples, clients: int, rng: np.random.Generator) -> list[Indices]:
        labels = samples.labels
        if not (math.isfinite(self.alpha) and self.alpha > 0):
            raise DataError(f"partition.alpha must be a positive number, not {self.alpha}: partition=iid is its limit.")
        if self.min_size < 1:
            raise DataError(f"partition.min_size must be at least 1, not {self.min_size}.")
        if clients * self.min_size > len(labels):
            raise DataError(
                f"{clients} clients with at least {self.min_size} samples each need {clients * self.min_size}, "
                f"but there are {len(labels)}: use at most {len(labels) // self.min_size} clients "
                f"or partition.min_size={len(labels) // clients}."
            )
        # beyond these bounds the draw is the limit (one client a class, equal shares) and floating point fails
        concentration = np.full(clients, np.clip(self.alpha, 1e-100, 1e100))
        owner = np.empty(len(labels), dtype=np.int64)
        for c in np.unique(labels):
            pool = rng.permutation(np.flatnonzero(labels == c))
            upto = np.cumsum(rng.dirichlet(concentration))
            cuts = np.round(upto / upto[-1] * len(pool)).astype(np.int64)
            owner[pool] = np.repeat(np.arange(clients), np.diff(cuts, prepend=0))
        self._fill(owner, clients, rng)
        return [np.flatnonzero(owner == client) for client in range(clients)]

    def _fill(self, owner: Indices, clients: int, rng: np.random.Generator) -> None:
        sizes = np.bincount(owner, minlength=clients)
        for poor in np.flatnonzero(sizes < self.min_size):
            while sizes[poor] < self.min_size:
                rich = int(sizes.argmax())
                count = min(self.min_size - sizes[poor], sizes[rich] - self.min_size)
                owner[rng.choice(np.flatnonzero(owner == rich), count, replace=False)] = poor
                sizes[poor] += count
                sizes[rich] -= count

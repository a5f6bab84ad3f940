from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from datamodules.base import DataError
from datamodules.partition import Indices, Partition
from datamodules.samples import Samples

DEGREES = {1: 1.0, 2: 0.8, 3: 0.4, 4: 0.2}


@dataclass(frozen=True, kw_only=True)
class Clusters(Partition):
    """FedLC: clusters of clients with disjoint main classes, from which a fraction p of their samples comes.

    `degree` 1 to 4 means p = 1.0, 0.8, 0.4, 0.2 (with five clusters the last is IID); `p` overrides it. Which classes
    are whose is drawn; the first clusters have one more where they do not divide. Every sample is used, and a
    cluster's samples are split evenly over its clients.
    """

    by_class: ClassVar[bool] = True
    degree: int = 1
    p: float | None = None
    clusters: int = 5

    def deal(self, samples: Samples, clients: int, rng: np.random.Generator) -> list[Indices]:
        classes, of_sample = np.unique(samples.labels, return_inverse=True)
        p = self._p(len(classes), clients)
        main = np.empty(len(classes), dtype=np.int64)  # the cluster that each class belongs to
        for cluster, mine in enumerate(np.array_split(rng.permutation(len(classes)), self.clusters)):
            main[mine] = cluster
        share = self._shares(p, np.bincount(main[of_sample], minlength=self.clusters))

        owner = np.empty(len(samples), dtype=np.int64)
        for c in range(len(classes)):
            held = rng.permutation(np.flatnonzero(of_sample == c))
            cuts = np.round(np.cumsum(share[main[c]]) * len(held)).astype(np.int64)
            cuts[-1] = len(held)
            owner[held] = np.repeat(np.arange(self.clusters), np.diff(cuts, prepend=0))
        parts: list[Indices] = []
        for cluster, members in enumerate(np.array_split(np.arange(clients), self.clusters)):
            pool = rng.permutation(np.flatnonzero(owner == cluster))
            if len(pool) < len(members):
                raise DataError(
                    f"Cluster {cluster} would have {len(pool)} samples for {len(members)} clients: use fewer clients."
                )
            parts += np.array_split(pool, len(members))
        return parts

    def _p(self, classes: int, clients: int) -> float:
        if self.degree not in DEGREES:
            raise DataError(f"partition.degree={self.degree} is unknown: use 1 to 4, or partition.p from 0 to 1.")
        p = DEGREES[self.degree] if self.p is None else self.p
        if not 0 <= p <= 1:
            raise DataError(f"partition.p={p} is a share of samples: use 0 to 1.")
        if not 1 <= self.clusters <= min(clients, classes):
            raise DataError(
                f"partition.clusters={self.clusters} is impossible with {clients} clients and {classes} classes: each "
                f"cluster needs one of both, so use 1 to {min(clients, classes)}."
            )
        return 1.0 if self.clusters == 1 else p

    def _shares(self, p: float, size: NDArray[np.integer]) -> NDArray[np.floating]:
        """[from, to]: which share of the main classes of one cluster goes to which cluster.

        Each keeps p of its own and must get (1 - p) of as many from the others; where the clusters' classes differ in
        size, equal shares would not give that, so that rows and columns are scaled in turn until both hold.
        """
        if p < 1 and 2 * size.max() > size.sum():
            raise DataError(
                f"The main classes of one cluster hold {size.max()} of {size.sum()} samples, so that the others "
                f"cannot make up 1 - p = {1 - p:g} of its data: use partition.p=1 or another seed."
            )
        moved = 1.0 - np.eye(len(size))
        for _ in range(200 if len(size) > 1 else 0):
            moved *= (size / moved.sum(axis=0))[None, :]
            moved *= (size / moved.sum(axis=1))[:, None]
        foreign = moved / size[:, None]
        shares: NDArray[np.floating] = p * np.eye(len(size)) + (1 - p) * foreign
        return shares

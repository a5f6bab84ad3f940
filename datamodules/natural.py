from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from datamodules.base import DataError
from datamodules.partition import COUNT, Indices, Partition
from datamodules.samples import Samples


@dataclass(frozen=True, kw_only=True)
class Natural(Partition):
    """The clients that the data come from: a writer's, a speaker's or a film's samples stay together.

    With fewer clients than groups each gets several whole groups, as many as any other give or take one, drawn at
    random. Groups of fewer than `min_samples` are left out.
    """

    min_samples: int = field(default=1, metadata=COUNT)

    def deal(self, samples: Samples, clients: int, rng: np.random.Generator) -> list[Indices]:
        _, group, sizes = np.unique(samples.groups, return_inverse=True, return_counts=True)
        kept = np.flatnonzero(sizes >= self.min_samples)
        if clients > len(kept):
            raise DataError(self._too_many(clients, len(kept), samples.name, int(sizes.max())))
        members = np.split(np.argsort(group, kind="stable"), np.cumsum(sizes)[:-1])
        dealt = np.array_split(rng.permutation(kept), clients)
        return [np.concatenate([members[number] for number in mine]) for mine in dealt]

    def remark(self, samples: Samples, parts: Sequence[Indices]) -> str | None:
        left = len(samples) - sum(map(len, parts))
        if not left:
            return None
        return f"partition.min_samples={self.min_samples}: groups with {left} samples together are left out."

    def _too_many(self, clients: int, groups: int, name: str, largest: int) -> str:
        if not groups:
            return (
                f"partition.min_samples={self.min_samples} leaves no group of {name}, the largest of which has "
                f"{largest} samples: use 1 to {largest}."
            )
        of_size = f" of at least {self.min_samples} samples" if self.min_samples > 1 else ""
        return f"clients={clients} is more than the {groups} groups{of_size} of {name}: use clients={groups} or fewer."

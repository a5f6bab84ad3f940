"""The jobs under way, kept in the orders the loop asks for, so that no question walks through all devices."""

from __future__ import annotations

import heapq
import math
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import overload

from bench.simulation.dispatch import Job

Key = tuple[float, int, int]  # arrival, client, job: the order in which jobs end

LAST: Key = (math.inf, 0, 0)


class InFlight(Mapping[int, Job]):
    """Jobs by number, from their dispatch until they end."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._order: list[Key] | None = None  # of all, once `_last` had to ask for it
        self._trainable: list[Key] = []  # a heap of those that wait to be trained; what has ended stays in it
        self.clients = array("q")  # sorted
        self.places = 0  # a device drawn twice takes two
        self._versions: Counter[int] = Counter()  # what they downloaded
        self._ended: set[int] = set()  # versions whose jobs have all ended since `unused` was asked

    def __getitem__(self, number: int) -> Job:
        return self._jobs[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: Job) -> None:
        self._jobs[job.id] = job
        if self._order is not None:
            insort(self._order, _key(job))
        insort(self.clients, job.client)
        self.places += job.count
        self._versions[job.version] += 1
        self._ended.discard(job.version)
        if job.trainable:
            self.make_trainable(job)

    def make_trainable(self, job: Job) -> None:
        """Its inputs are fixed."""
        job.trainable = True
        heapq.heappush(self._trainable, _key(job))

    def end(self, number: int) -> Job:
        job = self._jobs.pop(number)
        if self._order is not None:
            del self._order[bisect_left(self._order, _key(job))]
        del self.clients[bisect_left(self.clients, job.client)]
        self.places -= job.count
        self._versions[job.version] -= 1
        if not self._versions[job.version]:
            del self._versions[job.version]
            self._ended.add(job.version)
        return job

    def unused(self) -> set[int]:
        """Versions that no job is under way with any more; each is named once."""
        unused, self._ended = self._ended, set()
        return unused

    def pop_trainable(self, most: int | None, arrivals: int, until: float) -> list[Job]:
        """Trainable jobs in the order of their arrival: at most `most` of those among the next `arrivals` places (None:
        all), and none that ends after `until`."""
        last, most = (LAST, len(self)) if most is None else (self._last(arrivals), most)
        found: list[Job] = []
        while self._trainable and len(found) < most and self._trainable[0] <= last and self._trainable[0][0] <= until:
            job = self._jobs.get(heapq.heappop(self._trainable)[2])
            if job is not None and job.learned is None:
                found.append(job)
        return found

    def _last(self, arrivals: int) -> Key:
        """The last of the next `arrivals` places; only near the end of a run are there fewer than under way."""
        if self.places <= arrivals:
            return LAST
        if self._order is None:
            self._order = sorted(map(_key, self._jobs.values()))
        last: Key = (-math.inf, 0, 0)
        for key in self._order:
            if arrivals <= 0:
                break
            last = key
            arrivals -= self._jobs[key[2]].count
        return last


class IdleClients(Sequence[int]):
    """The numbers below `count` that are not in `taken`, which is sorted; none of them is written down."""

    def __init__(self, count: int, taken: Sequence[int]) -> None:
        self._count, self._taken = count, taken

    def __len__(self) -> int:
        return self._count - len(self._taken)

    @overload
    def __getitem__(self, k: int) -> int: ...
    @overload
    def __getitem__(self, k: slice) -> Sequence[int]: ...
    def __getitem__(self, k: int | slice) -> int | Sequence[int]:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        if not 0 <= k < len(self):
            raise IndexError(k)
        taken = self._taken
        return int(k) + bisect_right(range(len(taken)), k, key=lambda i: taken[i] - i)


def _key(job: Job) -> Key:
    return job.arrival, job.client, job.id

"""Virtual time: an event queue."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

NOBODY = -1  # stands for a device that was only counted


class Kind(IntEnum):
    """In the order in which simultaneous events are handled."""

    MAIL = 0  # a gradient reaches a device
    UPLOAD = 1
    LOST = 2  # a device gives up waiting for the answer to an upload that was lost
    START = 3  # a device has its model
    WAIT = 4  # the server has waited long enough for its buffer to fill


class Event(NamedTuple):
    """Ties are broken by kind, then device, then the job that caused it."""

    time: float
    kind: Kind
    device: int
    job: int


class Clock:
    """With `counts_starts` it is only counted when devices start (`started`), not which ones."""

    def __init__(self, counts_starts: bool = False) -> None:
        self.now = 0.0
        self._queue: list[Event] = []
        self._starts: list[float] | None = [] if counts_starts else None

    def push(self, event: Event) -> None:
        if event.kind is Kind.START and self._starts is not None:
            heapq.heappush(self._starts, event.time)
        else:
            heapq.heappush(self._queue, event)

    def next_time(self) -> float:
        return self._queue[0].time if self._queue else math.inf

    def next(self) -> Event:
        return self._queue[0]

    def pop(self) -> Event:
        event = heapq.heappop(self._queue)
        self.now = event.time
        return event

    def started(self, until: float, inclusive: bool = False) -> int:
        """How many devices started before then that were not counted yet."""
        assert self._starts is not None
        count = 0
        while self._starts and (self._starts[0] < until or (inclusive and self._starts[0] == until)):
            heapq.heappop(self._starts)
            count += 1
        return count

    def state_dict(self) -> dict[str, object]:
        starts = [Event(time, Kind.START, NOBODY, NOBODY) for time in self._starts or ()]
        events = sorted([*self._queue, *starts])
        return {"now": self.now, "queue": [[e.time, int(e.kind), e.device, e.job] for e in events]}

    def load_state_dict(self, state: dict[str, object]) -> None:
        now, queue = state["now"], state["queue"]
        assert isinstance(now, float) and isinstance(queue, list)
        self.now, self._queue = now, []
        self._starts = None if self._starts is None else []
        for time, kind, device, job in queue:
            self.push(Event(time, Kind(kind), device, job))


@dataclass
class RoundTrip:
    """A device's estimate of how long an answer takes, smoothed as in RFC 6298 (FedLC, Eq. 45)."""

    smoothed: float | None = None
    variation: float = 0.0

    def observe(self, seconds: float) -> None:
        if self.smoothed is None:
            self.smoothed, self.variation = seconds, seconds / 2
        else:
            self.variation = 0.75 * self.variation + 0.25 * abs(self.smoothed - seconds)
            self.smoothed = 0.875 * self.smoothed + 0.125 * seconds

    @property
    def timeout(self) -> float:
        """One second before the first answer, and never so short that a loss costs nothing."""
        return 1.0 if self.smoothed is None else max(self.smoothed + 4 * self.variation, 1e-3)

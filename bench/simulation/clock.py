"""Virtual time: an event queue."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


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
    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[Event] = []

    def push(self, event: Event) -> None:
        heapq.heappush(self._queue, event)

    def next_time(self) -> float:
        return self._queue[0].time if self._queue else math.inf

    def next(self) -> Event:
        return self._queue[0]

    def pop(self) -> Event:
        event = heapq.heappop(self._queue)
        self.now = event.time
        return event

    def state_dict(self) -> dict[str, object]:
        return {"now": self.now, "queue": [[e.time, int(e.kind), e.device, e.job] for e in sorted(self._queue)]}

    def load_state_dict(self, state: dict[str, object]) -> None:
        now, queue = state["now"], state["queue"]
        assert isinstance(now, float) and isinstance(queue, list)
        self.now = now
        self._queue = [Event(time, Kind(kind), device, job) for time, kind, device, job in queue]


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

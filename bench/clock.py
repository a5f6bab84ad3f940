"""Virtual time: an event queue, and devices that differ in speed, link and how much of their work they finish."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from bench.seeding import stream


class Kind(IntEnum):
    """In the order in which simultaneous events are handled."""

    MAIL = 0
    UPLOAD = 1
    START = 2


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


@dataclass(frozen=True)
class Devices:
    """Who is drawn, how much of its local work a device finishes, and how long computing and sending take."""

    clients: int
    seed: int
    sampling: str = "without_replacement"
    rho: float = 0.0  # share of stragglers
    tau_max: int | None = None  # None: max(1, epochs - 1)
    straggler: str = "tau"  # tau: E_i = E + 1 - U{1..tau_max}; epochs: E_i = U{1..E-1}
    seconds_per_step: float = 0.01
    spread: float = 10.0  # slowest : fastest, log-uniform
    redraw: bool = False  # draw the speed at every dispatch instead of once
    up: float | None = None  # MB/s; None: instant
    down: float | None = None

    def draw(self, version: int, idle: Sequence[int], places: int) -> list[int]:
        """The devices that get the next places, one entry a place."""
        rng = stream(self.seed, "sampling", version)
        if self.sampling == "with_replacement":
            return [idle[i] for i in rng.integers(len(idle), size=places)]
        return [idle[i] for i in rng.permutation(len(idle))[:places]]

    def grant(
        self, version: int, clients: Sequence[int], dispatch: Sequence[int], epochs: int, sync: bool
    ) -> list[int]:
        """Local epochs each device will finish. Synchronous: a share rho of the cohort's devices (rounded; one drawn
        twice is one) is late, drawn by round; asynchronous: each dispatch is late with probability rho."""
        granted = [epochs] * len(clients)
        if not self.rho:
            return granted
        if sync:
            rng = stream(self.seed, "stragglers", version)
            late = rng.permutation(len(clients))[: math.floor(self.rho * len(clients) + 0.5)]
            for k in sorted(late.tolist()):
                granted[k] = self._late(rng, epochs)
            return granted
        for k, (client, number) in enumerate(zip(clients, dispatch, strict=True)):
            rng = stream(self.seed, "stragglers", client, number)
            if rng.random() < self.rho:
                granted[k] = self._late(rng, epochs)
        return granted

    def _late(self, rng: np.random.Generator, epochs: int) -> int:
        if self.straggler == "epochs":
            return int(rng.integers(1, max(1, epochs - 1) + 1))
        tau_max = self.tau_max if self.tau_max is not None else max(1, epochs - 1)
        return epochs + 1 - int(rng.integers(1, min(tau_max, epochs) + 1))

    def compute_seconds(self, client: int, dispatch: int, version: int, steps: int) -> float:
        rng = stream(self.seed, "devices", client, dispatch if self.redraw else 0)
        return steps * self.seconds_per_step * math.pow(self.spread, rng.random())

    def upload_seconds(self, size: int) -> float:
        return size / (self.up * 1e6) if self.up else 0.0

    def download_seconds(self, size: int) -> float:
        return size / (self.down * 1e6) if self.down else 0.0

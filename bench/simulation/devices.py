"""Devices differ in speed, link and how much of their work they finish."""

from __future__ import annotations

import math
import operator
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.keys import COUNT, PHYSICAL, key
from bench.seeding import constant, stream, streams

if TYPE_CHECKING:
    from bench.simulation.dispatch import Dispatch


MANY = 2**16  # devices from which on what grows with all of them is done in another way


@dataclass(kw_only=True)
class Population:
    """The keys of the group `devices`."""

    name: str = "mixed"
    rho: float = key("share of stragglers in a cohort", 0.0, min=0, max=1)
    tau_max: int | None = key("largest delay of a straggler; null: max(1, epochs - 1)", None, **COUNT)
    straggler: str = key("a straggler draws its delay or its epochs uniformly", "tau", choices=("tau", "epochs"))
    seconds_per_step: float = key("virtual seconds a local step takes the fastest", 0.01, **PHYSICAL)
    spread: float = key("slowest device's time for a step over the fastest's", 10.0, min=1, max=1e9)
    kinds: list[float] | None = key(
        "times for a step relative to the fastest, one drawn per device; null: spread", None, shape="some", **PHYSICAL
    )
    seconds: list[float] | None = key(
        "[lo, hi]: a job takes U[lo, hi], whatever its steps; null: by steps", None, shape="range", **PHYSICAL
    )
    redraw: bool = key("draw a device's speed anew for every job", False)
    up: Any = key(
        "uplink in MB/s, or a list of which each device draws one; null: instant", None, shape="some", **PHYSICAL
    )
    down: Any = key("downlink in MB/s, likewise; null: instant", None, shape="some", **PHYSICAL)
    peer: list[float] | None = key(
        "[lo, hi]: a link between devices is U[lo, hi] (in logarithm) times the uplink", None, shape="range", **PHYSICAL
    )
    loss: float = key("probability that an upload or a message between devices is lost", 0.0, min=0, max=0.99)
    max_wait: float | None = key(
        "asynchronous: aggregate so many seconds after the first upload of a buffer", None, **PHYSICAL
    )


@dataclass(frozen=True)
class Devices:
    """Who is drawn, how much of its local work a device finishes, and how long computing and sending take."""

    clients: int
    seed: int
    sampling: str = "without_replacement"
    population: Population = field(default_factory=Population)

    def draw(self, version: int, idle: Sequence[int], places: int, *more: int) -> list[int]:
        """The devices that get the next places, one entry a place; their order says nothing. `more` tells draws of the
        same version apart."""
        if places == len(idle) and self.sampling == "without_replacement":
            return list(idle)
        rng = stream(self.seed, "sampling", version, *more)
        if self.clients >= MANY and self.sampling == "without_replacement" and 2 * places <= len(idle):
            return [idle[i] for i in _distinct(rng, len(idle), places)]
        if self.sampling == "with_replacement":
            return [idle[i] for i in rng.integers(len(idle), size=places)]
        return [idle[i] for i in rng.permutation(len(idle))[:places]]

    def grant(
        self, version: int, clients: Sequence[int], dispatch: Sequence[int], epochs: int, sync: bool
    ) -> list[int]:
        """Local epochs each device will finish. Synchronous: a share rho of the cohort's devices (rounded; one drawn
        twice is one) is late, drawn by round; asynchronous: each dispatch is late with probability rho."""
        granted, rho = [epochs] * len(clients), self.population.rho
        if not rho:
            return granted
        if sync:
            rng = stream(self.seed, "stragglers", version)
            late = rng.permutation(len(clients))[: math.floor(rho * len(clients) + 0.5)]
            for k in sorted(late.tolist()):
                granted[k] = self._late(rng, epochs)
            return granted
        for k, (client, number) in enumerate(zip(clients, dispatch, strict=True)):
            rng = stream(self.seed, "stragglers", client, number)
            if rng.random() < rho:
                granted[k] = self._late(rng, epochs)
        return granted

    def _late(self, rng: np.random.Generator, epochs: int) -> int:
        if self.population.straggler == "epochs":
            return int(rng.integers(1, max(1, epochs - 1) + 1))
        tau_max = max(1, epochs - 1) if self.population.tau_max is None else self.population.tau_max
        return epochs + 1 - int(rng.integers(1, min(tau_max, epochs) + 1))

    @cached_property
    def _speeds(self) -> array[float]:
        return self._constants("devices", 0)

    @cached_property
    def _links(self) -> array[float]:
        return self._constants("links")

    def _constants(self, purpose: str, *more: int) -> array[float]:
        """The first number of each device's stream."""
        found = array("d")
        for begin in range(0, self.clients, MANY):
            ids = [(client, *more) for client in range(begin, min(begin + MANY, self.clients))]
            found.extend(rng.random() for rng in streams(self.seed, purpose, ids))
        return found

    @cached_property
    def _paces(self) -> array[float]:
        """Of devices whose speed is not drawn anew for every job."""
        return array("d", map(self._pace, self._speeds))

    def _pace(self, drawn: float) -> float:
        """The time for a step over the fastest's; where a job takes a time of its own, that."""
        own = self.population
        if own.seconds is not None:
            lo, hi = own.seconds
            return lo + (hi - lo) * drawn
        return math.pow(own.spread, drawn) if own.kinds is None else own.kinds[int(drawn * len(own.kinds))]

    def compute_seconds(self, client: Sequence[int], dispatch: Sequence[int], steps: Iterable[int]) -> list[float]:
        """Of each of these jobs."""
        own = self.population
        if own.redraw:
            drawn = (stream(self.seed, "devices", *job).random() for job in zip(client, dispatch, strict=True))
            paces = list(map(self._pace, drawn))
        else:
            paces = list(map(self._paces.__getitem__, client))
        if own.seconds is not None:
            return paces
        return list(map(operator.mul, map(own.seconds_per_step.__mul__, steps), paces))

    def downloaded(self, clients: Sequence[int], size: int, now: float) -> list[float]:
        """When devices to which `size` bytes are sent now have them."""
        if self.population.down is None:
            return [now] * len(clients)
        return [now + self.download_seconds(client, size) for client in clients]

    def times(self, rows: Dispatch) -> tuple[list[float], list[float]]:
        """When the devices have trained, and how long what they send takes."""
        steps = map(operator.mul, rows.epochs, rows.steps_per_epoch)
        finish = list(map(operator.add, rows.begins, self.compute_seconds(rows.client, rows.number, steps)))
        if self.population.up is None:
            return finish, [0.0] * len(rows)
        return finish, list(map(self.upload_seconds, rows.client, rows.bytes_up))

    def upload_seconds(self, client: int, size: int) -> float:
        return self._link("up", client, size)

    def download_seconds(self, client: int, size: int) -> float:
        return self._link("down", client, size)

    def peer_seconds(self, sender: int, recipient: int, size: int) -> float:
        if self.population.peer is None or self.population.up is None:
            return 0.0
        return self.upload_seconds(sender, size) / self.gamma(sender, recipient)

    def gamma(self, one: int, other: int) -> float:
        """How much faster than its uplink a device's link to another one is; the same both ways."""
        lo, hi = self.population.peer or (1.0, 1.0)
        return lo * math.pow(hi / lo, constant(self.seed, "peers", min(one, other), max(one, other)))

    def _link(self, name: str, client: int, size: int) -> float:
        given = getattr(self.population, name)
        if given is None:
            return 0.0
        rates = given if isinstance(given, list) else [given]
        drawn = self._links[client]  # up and down alike: a device is near or far
        return size / (1e6 * float(rates[int(drawn * len(rates))]))

    def lost(self, client: int, dispatch: int, what: str, number: int) -> bool:
        """Whether attempt `number` of an upload, or the message to device `number`, is lost."""
        if not self.population.loss:
            return False
        return bool(stream(self.seed, f"lost {what}", client, dispatch, number).random() < self.population.loss)


def _distinct(rng: np.random.Generator, below: int, places: int) -> list[int]:
    """So many different numbers in random order, in a time that does not grow with `below`: what was drawn before is
    drawn again."""
    found: dict[int, None] = {}
    while len(found) < places:
        found.update(dict.fromkeys(rng.integers(below, size=places - len(found)).tolist()))
    return list(found)

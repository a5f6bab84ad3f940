"""Devices that are sent a model: a table with a row each, and one such row on its way through the events."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

from torch import Tensor

from algorithms.base import State
from bench.simulation.learned import Learned, Place

Carried = tuple[float, float, float]


@dataclass
class Dispatch:
    """A column has an entry per device."""

    client: list[int]
    number: list[int]  # how often the device was sent a model before
    count: list[int]  # how often it was drawn
    version: list[int]
    epochs: list[int]
    steps_per_epoch: list[int]
    layers: list[list[bool]]  # that will be sent back
    recipients: list[list[int]]  # of its gradient
    bytes_up: list[int]
    bytes_down: list[int]
    dispatched: list[float]
    begins: list[float]  # download complete
    unicast: list[State]  # its own rows of the server's tensors
    finish: list[float] = field(default_factory=list)
    arrival: list[float] = field(default_factory=list)  # or, if `lost`, when the device gives up waiting
    attempts: list[int] = field(default_factory=list)  # how often the upload is sent
    lost: list[bool] = field(default_factory=list)
    start: list[Tensor | None] = field(default_factory=list)  # its own model, where it goes on after a lost upload
    carried: list[Carried] = field(default_factory=list)  # steps, effective_steps, lr_sum since `received`
    mail: list[Tensor | None] = field(default_factory=list)
    senders: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.senders:
            for name, value in _FRESH.items():
                setattr(self, name, getattr(self, name) or [value] * len(self))

    def __len__(self) -> int:
        return len(self.client)

    @property
    def goes_on(self) -> bool:
        """Whether one of them goes on from its own model."""
        return self.start.count(None) < len(self)

    @property
    def whole(self) -> bool:
        """Whether all of them send all layers."""
        first = self.layers[0]
        return all(first) and self.layers.count(first) == len(self)

    def take(self, rows: Sequence[int]) -> Dispatch:
        """Some of the devices, in this order."""
        if list(rows) == list(range(len(self))):
            return self
        return Dispatch(**{name: [getattr(self, name)[k] for k in rows] for name in COLUMNS})

    def jobs(self) -> Iterator[Job]:
        for row in zip(*_columns(self), strict=True):
            yield Job(*row)

    @staticmethod
    def of(jobs: Sequence[Job]) -> Dispatch:
        return Dispatch(*map(list, zip(*map(_columns, jobs), strict=True)))


_FRESH: dict[str, Any] = {
    "finish": math.nan,
    "arrival": math.nan,
    "attempts": 1,
    "lost": False,
    "start": None,
    "carried": (0.0, 0.0, 0.0),
    "mail": None,
    "senders": 0,
}
COLUMNS = tuple(f.name for f in fields(Dispatch))
_columns = attrgetter(*COLUMNS)


@dataclass(slots=True)
class Job:
    """A row of a Dispatch, from the download to the aggregation that uses it."""

    client: int
    number: int
    count: int
    version: int
    epochs: int
    steps_per_epoch: int
    layers: list[bool]
    recipients: list[int]
    bytes_up: int
    bytes_down: int
    dispatched: float
    begins: float
    unicast: State
    finish: float
    arrival: float
    attempts: int
    lost: bool
    start: Tensor | None
    carried: Carried
    mail: Tensor | None
    senders: int
    id: int = -1
    trainable: bool = False
    learned: Learned | None = None  # of all that were trained in the same call; its own is `row`
    row: int = 0

    @property
    def place(self) -> Place:
        """Where what it learned stands."""
        assert self.learned is not None
        return self.learned, self.row

    def go_on(self, number: int, epochs: int, now: float) -> Job:
        """What follows when its upload was lost."""
        learned, k = self.learned, self.row
        assert learned is not None and learned.end is not None
        steps, effective, lr_sum = (float(getattr(learned, name)[k]) for name in Learned.CARRIED)
        return replace(
            self,
            number=number,
            epochs=epochs,
            bytes_down=0,
            dispatched=now,
            begins=now,
            start=learned.end[k].clone(),
            carried=(steps, effective, lr_sum),
            trainable=False,
            mail=None,
            senders=0,
            learned=None,
        )

    def state_dict(self, with_learned: bool) -> dict[str, Any]:
        """What a job in flight learns is recomputed after a resume; that of one which waits in the buffer is stored,
        because the device's memory it was computed from has been overwritten."""
        state = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("learned", "row", "carried")}
        stored = self.learned.state_dict(self.row) if with_learned and self.learned else None
        return {**state, "carried": list(self.carried), "learned": stored}

    @staticmethod
    def from_state(state: dict[str, Any]) -> Job:
        learned, carried = state["learned"], tuple(state["carried"])
        return Job(**{**state, "carried": carried, "learned": None if learned is None else Learned(**learned)})

"""Devices that are sent the current model together: who they are and what they will do, by number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from algorithms.base import State
from bench.simulation.jobs import Job


@dataclass(frozen=True)
class Dispatch:
    """A list has an entry per device; what is no list is the same for all of them."""

    client: list[int]
    number: list[int]  # how often the device was sent a model before
    count: list[int]  # how often it was drawn
    epochs: list[int]
    steps_per_epoch: list[int]
    begins: list[float]  # download complete
    version: int
    time: float
    layers: list[bool]  # that will be sent back
    bytes_up: int
    bytes_down: int

    def __len__(self) -> int:
        return len(self.client)

    def jobs(self, server: State, unicast: tuple[str, ...], mail: str | None) -> Iterator[Job]:
        """One each, with its own rows of `unicast` and the recipients that `mail` names."""
        columns = (self.client, self.number, self.count, self.epochs, self.steps_per_epoch, self.begins)
        for client, number, count, epochs, steps, begins in zip(*columns, strict=True):
            own = {name: server[name][client].clone() for name in unicast}
            yield Job(
                client=client,
                version=self.version,
                dispatch=number,
                count=count,
                epochs=epochs,
                steps_per_epoch=steps,
                layers=self.layers,
                recipients=own[mail].nonzero()[:, 0].tolist() if mail else [],
                bytes_up=self.bytes_up,
                bytes_down=self.bytes_down,
                dispatched=self.time,
                begins=begins,
                unicast=own,
            )

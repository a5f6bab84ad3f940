"""Uploads on their way to the server: what a row of transforms (algorithms/uploads/) makes of their vectors.

It happens where the server merges them. What a device remembers is of uploads that were used: one that was lost leaves
it as it is, and what the device had learned is in the next one that it sends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from algorithms.base import Fed, State
from algorithms.uploads.base import Draw, Sent, Size, Transform
from bench import own_code
from bench.seeding import stream
from bench.simulation.contract import Checked
from bench.simulation.dispatch import Dispatch
from bench.simulation.inputs import Inputs
from bench.simulation.learned import Uploads
from bench.simulation.memory import Memory
from bench.simulation.returned import Returned, described

DELTA = "delta"


def message(row: Sequence[Transform], numbers: int) -> Size:
    """What a vector of so many numbers becomes; of one without any nothing is sent."""
    size = Size(numbers)
    for transform in row if numbers else ():
        before = size
        with own_code.calling(transform, "size"):
            size = transform.size(before)
        found = (size.numbers, size.bits, size.beside) if isinstance(size, Size) else ()
        if not found or any(type(n) is not int or n < 0 for n in found) or size.numbers > before.numbers:
            look = Returned(f"size of {own_code.target(type(transform))}")
            raise look.wrong(described(size), f"a Size of whole numbers, with at most {before.numbers} numbers")
    return size


class Transforms:
    """Owns what the devices remember of them. `shared` [P] is the part of w that leaves a device."""

    def __init__(
        self, row: Sequence[Transform], algo: Checked, fed: Fed, shared: Tensor, seed: int, w0: Tensor
    ) -> None:
        self.row, self.extra_vectors = row, algo.vectors(fed)
        self._layout, self._shared, self._seed = fed.layout, shared, seed
        self._all = torch.arange(len(w0), device=w0.device)
        vectors = (DELTA, *self.extra_vectors)
        names = [_name(vector, one, what) for vector in vectors for one in row for what in _remembers(one)]
        self.memory = Memory(dict.fromkeys(names, torch.zeros_like(w0)), fed.clients)
        self._before: dict[int, State] = {}  # what the devices of the last call remembered
        self.uploads: Counter[int] = Counter()  # of each device, which number its streams
        self._places: dict[tuple[bool, ...], Tensor] = {}
        self._seen: set[str] = set()

    def undo(self) -> None:
        """The round does not count, and its devices will send again: what they remember is as it was before."""
        for client, state in self._before.items():
            self.memory.write(client, state)

    def received(self, rows: Dispatch, learned: Uploads) -> Uploads:
        """What the server receives of the uploads."""
        if not self.row:
            return learned
        self._before = {client: self._remembered(client) for client in rows.client}
        delta, extra = torch.zeros_like(learned.delta), dict(learned.extra)
        extra |= {name: torch.zeros_like(learned.extra[name]) for name in self.extra_vectors}
        for k, client in enumerate(rows.client):
            places = self._sent_places(rows.layers[k])
            delta[k] = self._vector(DELTA, 0, client, learned.delta[k], places)
            for number, name in enumerate(self.extra_vectors, start=1):
                extra[name][k] = self._vector(name, number, client, learned.extra[name][k], self._all)
            self.uploads[client] += 1
        return replace(learned, delta=delta, extra=extra)

    def _remembered(self, client: int) -> State:
        return {name: value[0] for name, value in self.memory.read([client]).items()}

    def _sent_places(self, layers: Sequence[bool]) -> Tensor:
        """The coordinates of these layers that leave a device."""
        key = tuple(layers)
        if key not in self._places:
            there = self._layout.expand(torch.tensor(layers, device=self._all.device)) & self._shared
            self._places[key] = there.nonzero()[:, 0]
        return self._places[key]

    def _vector(self, name: str, number: int, client: int, vector: Tensor, places: Tensor) -> Tensor:
        """One vector [P] of a device as the server has it, of which the numbers at `places` are sent."""
        received, values = torch.zeros_like(vector), vector[places]
        if not len(places):
            return received
        rng = stream(self._seed, "upload", client, self.uploads[client], number)
        draw = Draw(partial(_drawn, rng.random, vector.device), partial(_drawn, rng.standard_normal, vector.device))
        remembered, written = self._remembered(client), dict[str, Tensor]()
        for transform in self.row:
            names = {what: _name(name, transform, what) for what in transform.remembers}
            sent = self._asked(transform, values, {what: remembered[key][places] for what, key in names.items()}, draw)
            written |= {key: remembered[key].index_copy(0, places, sent.memory[what]) for what, key in names.items()}
            values, places = sent.values, places if sent.kept is None else places[sent.kept]
        self.memory.write(client, written)
        received[places] = values
        return received

    def _asked(self, transform: Transform, values: Tensor, memory: State, draw: Draw) -> Sent:
        """What a transform sends, whose number is the one the bytes were counted by; all of it is looked at once."""
        hook = f"send of {own_code.target(type(transform))}"
        first = hook not in self._seen
        before = Inputs(values=values, memory=memory) if first else None
        with own_code.calling(transform, "send"):
            sent = transform.send(values, memory, draw)
        look = Returned(hook, finite=True)
        if not isinstance(sent, Sent):
            raise look.wrong(described(sent), "a Sent")
        number = transform.size(Size(len(values))).numbers
        if not isinstance(sent.values, Tensor) or sent.values.shape != (number,):
            raise look.wrong(described(sent.values), f"the {number} numbers that `size` says are sent", ".values")
        if before is not None:
            self._seen.add(hook)
            before.unchanged(look)
            self._look(look, transform, sent, values)
        return sent

    @staticmethod
    def _look(look: Returned, transform: Transform, sent: Sent, values: Tensor) -> None:
        look.tensor(".values", sent.values, sent.values.shape, values.dtype, values.device, finite=True)
        if sent.kept is None and len(sent.values) != len(values):
            raise look.wrong("None", "the places of the numbers that are sent, where it is not all of them", ".kept")
        if sent.kept is not None:
            look.tensor(".kept", sent.kept, sent.values.shape, torch.long, values.device)
            steps = sent.kept.diff(prepend=sent.kept.new_tensor([-1]))
            if len(sent.kept) and not (bool((steps > 0).all()) and int(sent.kept[-1]) < len(values)):
                raise look.wrong("other places", f"ascending places from 0 to {len(values) - 1}", ".kept")
        look.mapping(".memory", sent.memory)
        if set(sent.memory) != set(transform.remembers):
            names = [", ".join(map(repr, keys)) or "nothing" for keys in (sent.memory, transform.remembers)]
            raise look.wrong(f"a memory of {names[0]}", f"one of {names[1]}, which `remembers` says")
        for name, value in sent.memory.items():
            look.tensor(f'.memory["{name}"]', value, values.shape, values.dtype, values.device, finite=True)

    def state_dict(self) -> dict[str, Any]:
        return {"memory": self.memory.state_dict(), "uploads": dict(self.uploads)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.memory.load_state_dict(state["memory"])
        self.uploads = Counter(state["uploads"])


def _remembers(transform: Transform) -> tuple[str, ...]:
    with own_code.calling(transform, "remembers"):
        found = transform.remembers
    if not (isinstance(found, tuple) and all(isinstance(name, str) for name in found)):
        look = Returned(f"remembers of {own_code.target(type(transform))}", verb="is")
        raise look.wrong(described(found), 'a tuple of names, such as ("residual",)')
    return found


def _name(vector: str, transform: Transform, what: str) -> str:
    return f"{vector} {type(transform).__name__.lower()}.{what}"


def _drawn(rng: Any, device: torch.device, number: int) -> Tensor:
    drawn: np.ndarray = rng(number)
    return torch.from_numpy(drawn).to(device)

"""A run of FedAvg ahead of the run itself, for a method that asks for its traces (algorithms.base.Fed.trace)."""

from __future__ import annotations

import io
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
import torch

from algorithms.base import Algorithm
from algorithms.views import Trace
from bench.engine.steps import Stopped
from bench.errors import UserError, cannot_write
from bench.files import replaced
from bench.output import digests
from bench.record import write_atomically
from bench.simulation.loop import FederatedLoop

DATA, FACTS = "prerun.bin", "prerun.json"
CHUNK = 2**20


@dataclass(frozen=True, kw_only=True)
class Recorder(Algorithm):
    """FedAvg that has its rounds traced, as a method wants its traces."""

    cacheable: ClassVar[bool] = True
    step_means: bool = False

    @property
    def requires(self) -> frozenset[str]:
        return frozenset({"trace", "step_means"} if self.step_means else {"trace"})


class Prerun:
    """A whole run of FedAvg with the same seeds, made when its first trace is asked for.

    Its traces go into `folder`, one row of numbers a round, written as they come and then mapped into memory: no more
    than one is held at a time. A resumed run finds them there and does not make them again. Without a folder (tests,
    small problems) they are kept in memory.
    """

    def __init__(
        self,
        make: Callable[[Algorithm], FederatedLoop],
        requires: frozenset[str],
        folder: Callable[[], Path] | None = None,
    ) -> None:
        self._make, self._requires, self._folder = make, requires, folder
        self._loop: FederatedLoop | None = None
        self._data: Path | None = None
        self._rows: np.ndarray = np.empty((0, 0))
        self.cost: dict[str, float] | None = None  # None: nothing has asked for it

    def __call__(self, version: int) -> Trace:
        if self._loop is None:
            self._loop = self._make(Recorder(step_means="step_means" in self._requires))
            self._open(self._loop)
        w, epochs = self._loop.server["w"], self._loop.fed.epochs
        row = torch.from_numpy(np.array(self._rows[version])).to(w.device)
        path, gradient, reached = torch.split(row, [(epochs + 1) * len(w), epochs * len(w), epochs + 1])
        return Trace(path.view(epochs + 1, -1), gradient.view(epochs, -1), reached)

    def discard(self) -> None:
        """The run has ended: its result knows the cost, and nobody needs gigabytes of traces."""
        if self._data is not None:
            self._data.unlink(missing_ok=True)

    def _open(self, loop: FederatedLoop) -> None:
        w, epochs = loop.server["w"], loop.fed.epochs
        numbers, dtype = (2 * epochs + 1) * len(w) + epochs + 1, w.cpu().numpy().dtype
        shape = {"numbers": numbers, "dtype": dtype.name}
        if self._folder is None:
            memory = io.BytesIO()
            self.cost = _write(loop, memory)["cost"]
            self._rows = np.frombuffer(memory.getvalue(), dtype).reshape(-1, numbers)
            return
        folder = self._folder()
        data, facts = folder / DATA, folder / FACTS
        found = _kept(data, facts, shape)
        if found is None:
            print("pre-run    FedAvg with the same seeds, for its traces", flush=True)
            try:
                with replaced(data) as file:
                    found = {**shape, **_write(loop, file)}
            except OSError as error:
                raise cannot_write(data, error) from None
            write_atomically(facts, digests.json_text(found))
        self._data, self.cost = data, found["cost"]
        self._rows = np.memmap(data, dtype, "r").reshape(-1, numbers)


def _write(loop: FederatedLoop, file: BinaryIO) -> dict[str, Any]:
    """Runs the loop to its end, a row for each round; returns what tells a whole file, and the cost."""
    begin, crc, size, row = time.perf_counter(), 0, 0, dict[str, float]()
    while not loop.finished:
        try:
            row = loop.advance()
        except Stopped:  # the run that waits for it has no state that could be kept
            raise KeyboardInterrupt from None
        if loop.last_trace is None:
            raise UserError("virtual_seconds ends before the first round of the pre-run: more of them help.")
        trace = loop.last_trace
        for part in (trace.w, trace.gradient, trace.reached):
            content = part.cpu().numpy().tobytes()
            file.write(content)
            crc, size = zlib.crc32(content, crc), size + len(content)
    counted = {name: row[name] for name in ("gradient_evaluations", "bytes_up", "bytes_down", "virtual_seconds")}
    cost = {"seconds": time.perf_counter() - begin, **counted, "disk_bytes": size}
    return {"crc32": crc, "cost": cost}


def _kept(data: Path, facts: Path, shape: Mapping[str, Any]) -> dict[str, Any] | None:
    """What an earlier part of this run left, if it is whole: else it is made anew, which gives the same."""
    try:
        found = digests.from_json(facts.read_text(encoding="utf-8"))
        same = all(found[name] == value for name, value in shape.items())
        whole = same and data.stat().st_size == found["cost"]["disk_bytes"]
        if whole and _crc(data) == found["crc32"]:
            return dict(found)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _crc(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while content := file.read(CHUNK):
            crc = zlib.crc32(content, crc)
    return crc

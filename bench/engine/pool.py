"""Work spread over processes: an engine whose jobs are trained elsewhere, with the same result to the bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from algorithms.base import Algorithm, Fed, Jobs, LocalRule, Trained
from bench.engine.base import Engine
from bench.engine.steps import Steps
from bench.engine.trace import Sink
from bench.engine.worker_service import WorkerService, constants

EACH = 8  # devices for each process, so that all of them end at about the same time
TRACE_BYTES = 2**26  # of the paths of devices that one part may hold


class Workers(Protocol):
    """Processes that each answer for a WorkerService."""

    count: int

    def map(self, name: str, calls: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """Their answers, in the order of the calls. The tensors of an answer last until the next is asked for."""

    def close(self) -> None: ...


class ThisProcess:
    """No other process."""

    count = 1

    def __init__(self, service: WorkerService) -> None:
        self.service = service

    def map(self, name: str, calls: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        for call in calls:
            yield getattr(self.service, name)(*call)

    def close(self) -> None:
        pass


class Spread:
    """Any engine, its jobs cut into parts for several workers."""

    def __init__(self, engine: Engine, workers: Workers) -> None:
        self.alone, self.workers, self.parallel_parts = engine, workers, workers.count
        self.together = workers.count * max(EACH, engine.together)
        self.name, self.layout, self.batches = engine.name, engine.layout, engine.batches

    @property
    def steps(self) -> Steps:
        return self.alone.steps

    def train(
        self, algo: Algorithm, fed: Fed, jobs: Jobs, dispatch: Sequence[int], trace: Sink | None = None
    ) -> tuple[Trained, list[int]]:
        steps = (jobs.epochs * jobs.steps_per_epoch).tolist()
        path = 0 if trace is None else (2 * fed.epochs + 1) * jobs.start[0].nbytes
        most = len(steps) if path == 0 else max(1, TRACE_BYTES // path)
        parts = cut(steps, self.workers.count, most)
        calls = [(algo, constants(fed), _rows(jobs, a, b), list(dispatch[a:b]), trace is not None) for a, b in parts]
        whole: dict[str, Tensor] = {}
        evaluations: list[int] = []
        for (a, b), (trained, counts, paths) in zip(parts, self.workers.map("train", calls), strict=True):
            for name, value in vars(trained).items():
                if value is not None:
                    if name not in whole:
                        whole[name] = self._blank(name, len(steps), value)
                    whole[name][a:b] = value
            evaluations += counts
            if trace is not None:
                paths.tell(trace)
        return Trained(**whole), evaluations

    def tune(self, fed: Fed, w: Tensor, client: int, rule: LocalRule, epochs: int) -> Tensor:
        return self.alone.tune(fed, w, client, rule, epochs)

    def _blank(self, name: str, count: int, part: Tensor) -> Tensor:
        """Room for all rows, laid out as the engine does."""
        return self.layout.blank(count, part) if name == "end" else part.new_empty(count, *part.shape[1:])


Trains = Engine | Spread


def cut(weights: Sequence[float], parts: int, most: int | None = None) -> list[tuple[int, int]]:
    """Contiguous ranges that weigh about the same: `parts` of them, or so many times more that none has over `most`
    elements; none is empty."""
    count = len(weights)
    most = count if most is None else most
    while True:
        sums = np.cumsum(weights)
        middle = sums - np.asarray(weights) / 2
        owner = np.minimum(middle * parts // sums[-1], parts - 1)
        edges = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), count]
        ranges = list(pairwise(edges))
        if parts >= count or max(b - a for a, b in ranges) <= most:
            return [(first, min(first + most, b)) for a, b in ranges for first in range(a, b, most)]
        parts *= 2


def _rows(jobs: Jobs, first: int, last: int) -> Jobs:
    def part(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: part(tensor) for name, tensor in value.items()}
        return None if value is None else value[first:last]

    return replace(jobs, **{f.name: part(getattr(jobs, f.name)) for f in fields(jobs)})

"""The federated loop: a round or a buffer as a whole where that is possible, else event by event on the clock."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import compress
from operator import attrgetter
from typing import Any

from algorithms.views import Trace
from bench.simulation.clock import RoundTrip
from bench.simulation.dispatch import Dispatch, Job
from bench.simulation.events import Events
from bench.simulation.flight import InFlight
from bench.simulation.learned import Outcomes
from bench.simulation.tally import Tally

COUNTERS = ("version", "round", "arrivals", "evaluations", "next_job", "dropped", "out_of_time")
PARTS = ("clock", "traffic", "memory", "transforms")


class FederatedLoop(Events):
    """Owns all state; the algorithm is pure. `advance()` runs one reporting round.

    A synchronous round in which nothing can get lost is known as a whole when it is dispatched (`_round`), and so are
    the uploads of an asynchronous buffer when the one before was aggregated (`_buffers`); anything else goes event by
    event (`_events`). What is done to the rows is the same (bench/simulation/coordinator.py).
    """

    @property
    def finished(self) -> bool:
        return self.out_of_time or self.round >= self.rules.rounds

    @property
    def last_trace(self) -> Trace | None:
        return self.training.last_trace

    def stop(self) -> None:
        """From another thread or a signal: `advance` is to raise Stopped soon. Only a mean path is kept nowhere while
        it is summed event by event, so that such a round goes on to its end."""
        if self.at_once or "trace" not in self.algo.requires:
            self.engine.steps.stop()

    def advance(self) -> dict[str, float]:
        """Runs to the next aggregation of a synchronous schedule, or until `arrivals_per_round` more uploads are in;
        returns the round's row for metrics.csv. Stopped (`stop`), it goes on from there when it is called again, also
        in another process that was given `state_dict`."""
        begin = time.perf_counter()
        if self.tally is None:
            self.tally, self.ended = Tally(), []
        tally = self.tally
        try:
            (self._round if self.at_once else self._buffers if self.by_buffers else self._events)(tally)
        finally:
            tally.seconds += time.perf_counter() - begin
        self.tally, self.round = None, self.round + 1
        return {
            "round": self.round,
            "version": self.version,
            "virtual_seconds": self.clock.now,
            **self.traffic.row(),
            **tally.row(),
            "gradient_evaluations": self.evaluations,
            "dropped": self.dropped,
            "train_seconds": tally.seconds,
            **self.algo.report(self.server, self.fed),
        }

    def _round(self, tally: Tally) -> None:
        """To the next version, or until the virtual time is up."""
        while True:
            repeat = self.again is not None
            rows, kept = self._pass(self.first() if self.again is None else self.again, repeat, tally)
            self.again = None
            if self.out_of_time or not self.next_version():
                break
            self.again = [rows.client[k] for k in kept for _ in range(rows.count[k])]
        self.sent.clear()

    def _pass(self, drawn: Sequence[int], repeat: bool, tally: Tally) -> tuple[Dispatch, list[int]]:
        """The devices train and are aggregated; returns them, and which of them counted."""
        drafted, until = self.draft(drawn, repeat), self.rules.virtual_seconds
        last, rows = max(drafted.arrival), drafted
        if last > until:
            rows = drafted.take([k for k, arrival in enumerate(drafted.arrival) if arrival <= until])
        learned = self.learn(rows) if len(rows) else None
        self.dispatched(drafted, repeat)
        self.traffic.down += sum(compress(drafted.bytes_down, map(until.__ge__, drafted.begins)))
        self.out_of_time, self.clock.now = last > until, min(last, until)
        if learned is None:
            return rows, []
        kept = self._receive(rows, learned, tally)
        if kept and not self.out_of_time:
            self.merge(rows.take(kept), learned.take(kept), tally)
        return rows, kept

    def _buffers(self, tally: Tally) -> None:
        """Until so many uploads are in, or the virtual time is up."""
        if not self.jobs:
            self._dispatch(self.first())
        while self._goes_on(self.version) and not self.out_of_time:
            self.engine.steps.look()
            jobs: list[Job] = []
            try:
                for job in self._coming():
                    self._learned(job)
                    jobs.append(self.jobs.end(self.clock.pop().job))
            finally:  # stopped, it keeps those that came before
                rows = self._came(jobs, tally)
            if self._complete():
                self._aggregate(tally, rows)
            elif not jobs:
                self.out_of_time, self.clock.now = True, self.rules.virtual_seconds
                self.traffic.down += self.bytes_down * self.clock.started(self.clock.now, inclusive=True)

    def _coming(self) -> Iterator[Job]:
        """The next uploads: in virtual time, no more than the buffer takes, and none of the next reporting round."""
        places = (self.round + 1) * self.arrivals_per_round - self.arrivals
        places = min(places, self.rules.schedule.buffer - self.filled)
        while places > 0 and self.clock.next_time() <= self.rules.virtual_seconds:
            job = self.jobs[self.clock.next().job]
            yield job
            places -= job.count

    def _came(self, jobs: list[Job], tally: Tally) -> Dispatch | None:
        """Their rows, if they are all in the buffer."""
        if not jobs:
            return None
        self.traffic.down += self.bytes_down * self.clock.started(self.clock.now)
        jobs.sort(key=attrgetter("client"))
        for job in jobs:
            self._choose_layers(job)
        rows = Dispatch.of(jobs)
        self._receive(rows, Outcomes.of([job.place for job in jobs]), tally)
        self.arrived += jobs
        self.filled += sum(rows.count)
        return rows if len(rows) == len(self.arrived) else None

    def state_dict(self) -> dict[str, Any]:
        """As a checkpoint holds it: tensors, numbers, strings, dicts and lists only (weights_only)."""
        return {
            **{name: getattr(self, name) for name in COUNTERS},
            **{name: getattr(self, name).state_dict() for name in PARTS},
            "tally": None if self.tally is None else dict(vars(self.tally)),
            "ended": list(map(list, self.ended)),
            "again": self.again,
            "cache": self.training.cache.state_dict(),
            "dispatches": dict(self.dispatches),
            "server": dict(self.server),
            "jobs": [job.state_dict(with_learned=False) for job in self.jobs.values()],
            "arrived": [job.state_dict(with_learned=True) for job in self.arrived],
            "mail": self.mail.state_dict(self.jobs, self._gradient),
            "trips": {client: [trip.smoothed, trip.variation] for client, trip in self.trips.items()},
            "sent": {version: dict(state) for version, state in self.sent.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in COUNTERS:
            setattr(self, name, state[name])
        for name in PARTS:
            getattr(self, name).load_state_dict(state[name])
        self.tally = None if state["tally"] is None else Tally(**state["tally"])
        self.ended, self.again = list(map(tuple, state["ended"])), state["again"]
        self.training.cache.load_state_dict(state["cache"])
        self.dispatches, self.server = Counter(state["dispatches"]), state["server"]
        self.trips = {client: RoundTrip(*values) for client, values in state["trips"].items()}
        self.arrived = [Job.from_state(job) for job in state["arrived"]]
        self.filled = sum(job.count for job in self.arrived)
        self.jobs = InFlight()
        for job in map(Job.from_state, state["jobs"]):
            self.jobs.add(job)
        for job in self.arrived:  # their versions are needed until the aggregation
            self.jobs.add(job)
            self.jobs.end(job.id)
        in_use = {job.version for job in (*self.jobs.values(), *self.arrived)}
        self.sent = {version: sent for version, sent in state["sent"].items() if version in in_use}
        self.mail.load_state_dict(state["mail"], self.jobs)

"""The federated loop: a round as a whole where that is possible, else event by event on the virtual clock."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from itertools import compress
from typing import Any

from torch import Tensor

from algorithms.views import Trace
from bench.simulation.clock import Event, Kind, RoundTrip
from bench.simulation.coordinator import Coordinator
from bench.simulation.dispatch import Dispatch, Job
from bench.simulation.flight import IdleClients, InFlight
from bench.simulation.learned import Learned
from bench.simulation.mail import Letter
from bench.simulation.tally import Tally
from bench.simulation.travel import events, round_trip, travel

COUNTERS = ("version", "round", "arrivals", "evaluations", "next_job", "dropped", "out_of_time")
PARTS = ("clock", "traffic", "memory")


class FederatedLoop(Coordinator):
    """Owns all state; the algorithm is pure. `advance()` runs one reporting round.

    A synchronous round in which nothing can get lost is known as a whole when it is dispatched (`_round`); anything
    else goes event by event (`_events`). What is done to the rows is the same (bench/simulation/coordinator.py).
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
            (self._round if self.at_once else self._events)(tally)
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
        kept = self._receive(rows, learned, range(len(rows)), tally)
        if kept and not self.out_of_time:
            self.merge(rows.take(kept), learned.take(kept), tally)
        return rows, kept

    def _events(self, tally: Tally) -> None:
        if not self.jobs:
            self._dispatch(self.first())
        version = self.version
        while self._goes_on(version):
            if self.clock.next_time() > self.rules.virtual_seconds:
                self.out_of_time = True
                self.clock.now = self.rules.virtual_seconds
                break
            self._prepare(self.clock.next())
            self._handle(self.clock.pop(), tally)

    def _goes_on(self, version: int) -> bool:
        """Whether the round that began with this version is not over yet."""
        if self.sync:
            return self.version == version
        return self.arrivals < (self.round + 1) * self.arrivals_per_round

    def _prepare(self, event: Event) -> None:
        """Trains whom the event needs trained. Nothing else takes long, and stopped here, nothing has happened yet."""
        self.engine.steps.look()
        match event.kind:
            case Kind.UPLOAD | Kind.LOST:
                self._learned(self.jobs[event.job])
            case Kind.START:
                for letter in self.mail.waiting(event.device):
                    if isinstance(letter, Job):
                        self._learned(letter)

    def _handle(self, event: Event, tally: Tally) -> None:
        match event.kind:
            case Kind.START:
                self._start(self.jobs[event.job])
            case Kind.MAIL:
                self.mail.deliver(event.job, event.device)
            case Kind.UPLOAD:
                self._arrive(self.jobs.end(event.job), tally)
            case Kind.LOST:
                self._go_on(self.jobs.end(event.job), tally)
            case Kind.WAIT if event.job == self.version and self.arrived:
                self._aggregate(tally, [] if self.rules.schedule.at_once else None)

    def _next(self, freed: list[int], *more: int) -> list[int]:
        """Who takes the freed places. All devices at work: the same ones; otherwise drawn from the idle, which in a
        synchronous schedule are all. Whose upload waits in the buffer is idle only where nobody else is."""
        if not self.sync and self.rules.schedule.concurrency == self.fed.clients:
            return freed
        waiting = {job.client for job in self.arrived}
        busy = sorted(waiting.union(self.jobs.clients)) if waiting else self.jobs.clients
        if self.rules.schedule.at_once and self.fed.clients - len(busy) < len(freed):
            busy = self.jobs.clients
        places = self.rules.schedule.buffer if self.sync else len(freed)
        return self.devices.draw(self.version, IdleClients(self.fed.clients, busy), places, *more)

    def _dispatch(self, drawn: Sequence[int], repeat: bool = False) -> None:
        rows = self.draft(drawn, repeat)
        self.dispatched(rows, repeat)
        self._launch(rows)

    def _launch(self, rows: Dispatch) -> None:
        for job in rows.jobs():
            job.id, self.next_job = self.next_job, self.next_job + 1
            job.trainable = self.foreseeable
            found = events(job, self.devices, self.traffic.message)
            for event in found:
                self.clock.push(event)
            self.jobs.add(job)
            self.mail.post(job, len(found) - 2)  # beside start and upload

    def _start(self, job: Job) -> None:
        """The download is complete and the inbox is read: from here on the job's inputs are fixed."""
        self.traffic.down += job.bytes_down
        for letter in self.mail.read(job.client):
            gradient = self._gradient(letter)
            if not gradient.isfinite().all():
                continue  # its sender diverged
            job.mail = gradient.clone() if job.mail is None else job.mail + gradient
            job.senders += 1
        if not job.trainable:
            self.jobs.make_trainable(job)

    def _gradient(self, letter: Letter) -> Tensor:
        if not isinstance(letter, Job):
            return letter
        learned = self._learned(letter)
        assert learned.gradient is not None, "a method with mail has to give Upload.gradient"
        return learned.gradient[letter.row]

    def _learned(self, job: Job) -> Learned:
        """Trains the job if that has not happened yet, together with those that end next: in a synchronous schedule
        with all that can be trained."""
        if job.learned is None:
            left = self.rules.rounds * self.arrivals_per_round - self.arrivals
            most = self.training.jobs_per_call
            most = most if self.sync else min(most, self.underway.together)
            others = self.jobs.pop_trainable(None if self.sync else most, left, self.rules.virtual_seconds)
            jobs = [job, *(other for other in others if other is not job)]
            if self.sync:
                jobs.sort(key=lambda job: job.client)  # a trace is summed in this order
            while job.learned is None:
                learned = self.learn(Dispatch.of(jobs[:most]))
                for row, one in enumerate(jobs[:most]):
                    one.learned, one.row = learned, row
                jobs = jobs[most:]
            for other in jobs:
                self.jobs.make_trainable(other)
        return job.learned

    def _choose_layers(self, job: Job) -> None:
        """Those of the present version, where a method goes by it."""
        if self.algo.chooses_on_arrival:
            layers = self.algo.sends(self.version, self.fed)
            job.layers, job.bytes_up = layers.tolist(), self.traffic.upload_size(layers)

    def _arrive(self, job: Job, tally: Tally) -> None:
        self._choose_layers(job)
        learned = self._learned(job)
        if self.devices.population.loss and job.attempts == 1:  # Karn's rule: which attempt was answered is not known
            self.trips.setdefault(job.client, RoundTrip()).observe(round_trip(job, self.devices))
        if not self._receive(Dispatch.of([job]), learned, [job.row], tally):
            return self._replace(job, tally)
        self.arrived.append(job)
        self.filled += job.count
        wait = self.devices.population.max_wait
        freed, at_once = [job.client] * job.count, self.rules.schedule.at_once
        if self._complete():
            return self._aggregate(tally, freed if at_once else None)
        if at_once:
            self._dispatch(self._next(freed, self.arrivals))
        if wait is not None and len(self.arrived) == 1:
            self.clock.push(Event(self.clock.now + wait, Kind.WAIT, job.client, self.version))

    def _complete(self) -> bool:
        """Whether the server has waited for all it waits for."""
        return not self.jobs if self.sync else self.filled >= self.rules.schedule.buffer

    def _go_on(self, job: Job, tally: Tally) -> None:
        """No answer came: the device trains on from its own model, and what was lost is part of its next upload."""
        self._choose_layers(job)
        rows, learned = Dispatch.of([job]), self._learned(job)
        self._account(rows, learned, [job.row], [0], "lost")
        if not self._without_diverged(rows, learned, [job.row], [0]):
            return self._replace(job, tally)
        number = self.dispatches[job.client]
        self.dispatches[job.client] += 1
        (epochs,) = self.devices.grant(job.version, [job.client], [number], self.fed.epochs, sync=False)
        again = Dispatch.of([job.go_on(number, epochs, self.clock.now)])
        travel(again, self.devices, self._timeout, self.algo.retransmit)
        self._launch(again)

    def _replace(self, job: Job, tally: Tally) -> None:
        """What it learned was dropped: another takes its place, in a synchronous round none."""
        if not self.sync:
            self._dispatch(self._next([job.client] * job.count, self.arrivals))
        elif not self.jobs:
            self._aggregate(tally)

    def _aggregate(self, tally: Tally, freed: list[int] | None = None) -> None:
        """`freed`: the places that are to be filled now; None: those of all that are aggregated."""
        jobs = sorted(self.arrived, key=lambda job: job.client)
        if jobs:  # all of a cohort may have been dropped
            self.merge(Dispatch.of(jobs), Learned.uploads([(self._learned(job), job.row) for job in jobs]), tally)
        self.arrived, self.filled = [], 0
        contributors = [job.client for job in jobs for _ in range(job.count)]
        repeat = self.next_version()
        for unused in self.jobs.unused():
            self.sent.pop(unused, None)
        if repeat or freed is None:
            self._dispatch(contributors if repeat else self._next(contributors), repeat)
        elif freed:
            self._dispatch(self._next(freed))

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

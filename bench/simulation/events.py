"""What happens to devices one by one: their jobs as they begin, arrive, get lost and are replaced."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from bench.simulation.clock import Event, Kind, RoundTrip
from bench.simulation.coordinator import Coordinator
from bench.simulation.dispatch import Dispatch, Job
from bench.simulation.flight import IdleClients
from bench.simulation.learned import Learned, Outcomes
from bench.simulation.mail import Letter
from bench.simulation.tally import Tally
from bench.simulation.travel import mail, round_trip, travel


class Events(Coordinator):
    """A federation whose devices are under way, each with a job of its own."""

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
                self._aggregate(tally, freed=[] if self.rules.schedule.at_once else None)

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
            self.jobs.add(job)
            self.clock.push(Event(job.begins, Kind.START, job.client, job.id))
            self.clock.push(Event(job.arrival, Kind.LOST if job.lost else Kind.UPLOAD, job.client, job.id))
            if job.recipients:
                letters = mail(job, self.devices, self.traffic.message)
                for event in letters:
                    self.clock.push(event)
                self.mail.post(job, len(letters))

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
            job.layers, job.bytes_up = self.traffic.upload(self.version)

    def _arrive(self, job: Job, tally: Tally) -> None:
        self._choose_layers(job)
        learned = self._learned(job)
        if self.devices.population.loss and job.attempts == 1:  # Karn's rule: which attempt was answered is not known
            self.trips.setdefault(job.client, RoundTrip()).observe(round_trip(job, self.devices))
        if not self._receive(Dispatch.of([job]), Outcomes.of([(learned, job.row)]), tally):
            return self._replace(job, tally)
        self.arrived.append(job)
        self.filled += job.count
        wait = self.devices.population.max_wait
        freed, at_once = [job.client] * job.count, self.rules.schedule.at_once
        if self._complete():
            return self._aggregate(tally, freed=freed if at_once else None)
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
        rows, learned = Dispatch.of([job]), Outcomes.of([(self._learned(job), job.row)])
        self._account(rows, learned, [0], "lost")
        if not self._without_diverged(rows, learned, [0]):
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

    def _aggregate(self, tally: Tally, rows: Dispatch | None = None, freed: list[int] | None = None) -> None:
        """Of the buffer, whose `rows` may be known. `freed`: the places to be filled; None: those of its uploads."""
        jobs = sorted(self.arrived, key=lambda job: job.client)
        if jobs:  # all of a cohort may have been dropped
            self.merge(rows or Dispatch.of(jobs), Learned.uploads([job.place for job in jobs]), tally)
        self.arrived, self.filled = [], 0
        contributors = [job.client for job in jobs for _ in range(job.count)]
        repeat = self.next_version()
        for unused in self.jobs.unused():
            self.sent.pop(unused, None)
        if repeat or freed is None:
            self._dispatch(contributors if repeat else self._next(contributors), repeat)
        elif freed:
            self._dispatch(self._next(freed))

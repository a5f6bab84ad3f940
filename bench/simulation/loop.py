"""The federated loop: dispatches devices, orders events on the virtual clock, trains lazily, aggregates."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from algorithms.base import Algorithm, Fed, Jobs, State, Trained, Updates
from algorithms.views import Trace
from bench.engine.base import Trains
from bench.engine.trace import TraceSums
from bench.errors import Diverged
from bench.simulation import rounds, snapshot
from bench.simulation.clock import Clock, Event, Kind, RoundTrip
from bench.simulation.devices import Devices
from bench.simulation.dispatch import Dispatch
from bench.simulation.flight import InFlight, Others
from bench.simulation.jobs import Job, Learned, Result, carry, everyone, gather, remember, stack, store
from bench.simulation.mail import Letter, Mail
from bench.simulation.memory import Memory
from bench.simulation.schedule import Rules
from bench.simulation.tally import Ended, Tally
from bench.simulation.traffic import Traffic
from bench.simulation.travel import round_trip, travel


class FederatedLoop:
    """Owns all state; the algorithm is pure. `advance()` runs one reporting round."""

    def __init__(self, algo: Algorithm, fed: Fed, engine: Trains, devices: Devices, rules: Rules, w0: Tensor) -> None:
        self.algo, self.fed, self.engine, self.devices, self.rules = algo, fed, engine, devices, rules
        self.sync = rules.schedule.sync
        self.arrivals_per_round = rules.arrivals_per_round or rules.schedule.buffer
        self.sync_stragglers = self.sync and rules.schedule.buffer > 1
        self.at_once = self.sync and not (devices.population.loss or algo.mail)
        self.batch = rules.together(w0.numel(), engine.parallel_parts)
        self.server = algo.init_server(w0, fed)
        personal = {} if algo.personal == "none" else {"w": w0}
        self.memory = Memory({**algo.init_client(w0, fed), **personal}, fed.clients)
        # aggregation=cached: the devices' last models, and the versions they were made from
        self.cache = Memory({"w": w0, "version": w0.new_zeros(())}, fed.clients)
        self.personal = engine.layout.part(algo.personal)
        self.clock, self.traffic = Clock(), Traffic(algo, fed, ~self.personal)
        self.version = self.round = self.arrivals = self.evaluations = self.next_job = self.dropped = 0
        self.dispatches: Counter[int] = Counter()
        self.jobs = InFlight()
        self.arrived: list[Job] = []  # in the buffer
        self.filled = 0  # places in it that are taken
        self.samples: list[float] = fed.samples.tolist()
        self.mail = Mail()
        self.trips: dict[int, RoundTrip] = {}
        self.ended: list[Ended] = []  # jobs of this round, for the timeline
        self.sent: dict[int, State] = {}  # version -> broadcast tensors that some job still needs
        self.trace: TraceSums | None = None  # of the round that is going on
        self.last_trace: Trace | None = None
        self.out_of_time = False

    @property
    def finished(self) -> bool:
        return self.out_of_time or self.round >= self.rules.rounds

    def advance(self) -> dict[str, float]:
        """Runs to the next aggregation of a synchronous schedule, or until `arrivals_per_round` more uploads are in;
        returns the round's row for metrics.csv."""
        begin, tally, self.ended = time.perf_counter(), Tally(), []
        rounds.run(self, tally) if self.at_once else self._run(tally)
        self.round += 1
        return {
            "round": self.round,
            "version": self.version,
            "virtual_seconds": self.clock.now,
            **self.traffic.row(),
            **tally.row(),
            "gradient_evaluations": self.evaluations,
            "dropped": self.dropped,
            "train_seconds": time.perf_counter() - begin,
            **self.algo.report(self.server, self.fed),
        }

    def _run(self, tally: Tally) -> None:
        if not self.jobs:
            self._dispatch(self.first())
        version = self.version
        while self.version == version if self.sync else self.arrivals < (self.round + 1) * self.arrivals_per_round:
            if self.clock.next_time() > self.rules.virtual_seconds:
                self.out_of_time = True
                self.clock.now = self.rules.virtual_seconds
                break
            self._handle(self.clock.pop(), tally)

    def deployed(self) -> Tensor:
        return self.algo.deployed(self.server, self.memory, self.fed)

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
                self._aggregate(tally)

    def first(self) -> list[int]:
        everyone, places = list(range(self.fed.clients)), self.rules.schedule.concurrency
        full = not self.sync and places == self.fed.clients
        return everyone if full else self.devices.draw(self.version, everyone, places)

    def _next(self, freed: list[int]) -> list[int]:
        """Who takes the freed places. All devices at work: the same ones; otherwise drawn from the idle, which in a
        synchronous schedule are all."""
        if not self.sync and self.rules.schedule.concurrency == self.fed.clients:
            return freed
        waiting = [job.client for job in self.arrived]  # if one of a buffer was dropped
        busy = sorted([*self.jobs.clients, *waiting]) if waiting else self.jobs.clients
        places = self.rules.schedule.buffer if self.sync else len(freed)
        return self.devices.draw(self.version, Others(self.fed.clients, busy), places)

    def draft(self, drawn: Sequence[int], again: bool = False) -> Dispatch:
        """The current model for these devices: what each will do and send, and when it begins."""
        counts = Counter(drawn)
        clients = sorted(counts)
        if not again:
            self.dispatches.update(clients)
        numbers = [self.dispatches[client] - 1 for client in clients]
        layers = self.algo.sends(self.version, self.fed)
        down = self.traffic.download_size(self.server, self.algo)
        return Dispatch(
            client=clients,
            number=numbers,
            count=[counts[client] for client in clients],
            epochs=self.devices.grant(self.version, clients, numbers, self.fed.epochs, self.sync_stragglers),
            steps_per_epoch=list(map(self.engine.batches.steps_per_epoch, clients)),
            begins=self.devices.downloaded(clients, down, self.clock.now),
            version=self.version,
            time=self.clock.now,
            layers=layers.tolist(),
            bytes_up=self.traffic.upload_size(layers),
            bytes_down=down,
        )

    def _dispatch(self, drawn: Sequence[int], again: bool = False) -> None:
        """What a job will send, to whom, and when it arrives is known from here on."""
        self.sent[self.version] = {name: self.server[name] for name in self.algo.broadcast}
        for job in self.draft(drawn, again).jobs(self.server, self.algo.unicast, self.algo.mail):
            self._launch(job)

    def _launch(self, job: Job) -> None:
        job.id, self.next_job = self.next_job, self.next_job + 1
        trip = self.trips.get(job.client) or RoundTrip()
        events = travel(job, self.devices, trip.timeout, self.algo.retransmit, self.traffic.message)
        for event in events:
            self.clock.push(event)
        self.jobs.add(job)
        self.mail.post(job, len(events) - 2)  # beside start and upload

    def _start(self, job: Job) -> None:
        """The download is complete and the inbox is read: from here on the job's inputs are fixed."""
        self.traffic.down += job.bytes_down
        for letter in self.mail.read(job.client):
            gradient = self.gradient(letter)
            if not gradient.isfinite().all():
                continue  # its sender diverged
            job.mail = gradient.clone() if job.mail is None else job.mail + gradient
            job.senders += 1
        job.started = True
        self.jobs.start(job)

    def _go_on(self, job: Job, tally: Tally) -> None:
        """No answer came: the device trains on from its own model, and what was lost is part of its next upload."""
        result = self._result(job)
        self._account(job, result, "lost")
        if what := result.not_finite:
            return self._drop(job, what, tally)
        number = self.dispatches[job.client]
        self.dispatches[job.client] += 1
        (epochs,) = self.devices.grant(job.version, [job.client], [number], self.fed.epochs, sync=False)
        self._launch(job.go_on(result, number, epochs, self.clock.now))

    def _account(self, job: Job, result: Result, outcome: str) -> None:
        """What was sent and computed counts, whether it arrived or not."""
        self.traffic.up += job.bytes_up * job.attempts
        self.traffic.peer += self.traffic.message * len(job.recipients)
        self.evaluations += result.evaluations
        self.ended.append((job.client, job.version, job.dispatched, job.begins, job.finish, job.arrival, outcome))

    def gradient(self, letter: Letter) -> Tensor:
        gradient = self._result(letter).gradient if isinstance(letter, Job) else letter
        assert gradient is not None, "a method with mail has to give Upload.gradient"
        return gradient

    def _result(self, job: Job) -> Result:
        """Trains the job if that has not happened yet, together with all others that have started."""
        if job.result is None:
            left = self.rules.rounds * self.arrivals_per_round - self.arrivals
            others = self.jobs.ready(None if self.sync else self.batch, left, self.rules.virtual_seconds)
            jobs = [job, *(other for other in others if other is not job)]
            if self.sync:
                jobs.sort(key=lambda job: job.client)  # a trace is summed in this order
            while job.result is None:
                self._train(jobs[: self.batch])
                jobs = jobs[self.batch :]
            for other in jobs:
                self.jobs.start(other)
        return job.result

    def _train(self, jobs: list[Job]) -> None:
        rows = stack(jobs, self.algo, self.fed, self.sent, self.memory, self.personal)
        trained, evaluations = self.train(rows, [job.dispatch for job in jobs])
        trained = carry(jobs, trained)
        store(jobs, self.algo, Learned(trained, self.algo.upload(rows, trained, self.fed), evaluations))

    def train(self, rows: Jobs, dispatch: Sequence[int]) -> tuple[Trained, list[int]]:
        if "trace" in self.algo.requires and self.trace is None:
            self.trace = TraceSums.zeros(self.fed.epochs, self.server["w"])
        return self.engine.train(self.algo, self.fed, rows, dispatch, self.trace)

    def learn(self, sent: Dispatch, which: Sequence[int]) -> Learned:
        """What these rows of a dispatch will upload."""
        return rounds.learn(self, sent, which)

    def _arrive(self, job: Job, tally: Tally) -> None:
        result = self._result(job)
        self._account(job, result, "arrived")
        if self.devices.population.loss and job.attempts == 1:  # Karn's rule: which attempt was answered is not known
            self.trips.setdefault(job.client, RoundTrip()).observe(round_trip(job, self.devices))
        self.arrivals += job.count
        if what := result.not_finite:
            return self._drop(job, what, tally)
        tally.add([result.loss], [self.samples[job.client] * job.count])
        self.memory.write(job.client, result.mine)
        self.arrived.append(job)
        self.filled += job.count
        wait = self.devices.population.max_wait
        if not self.jobs if self.sync else self.filled >= self.rules.schedule.buffer:
            self._aggregate(tally)
        elif wait is not None and len(self.arrived) == 1:
            self.clock.push(Event(self.clock.now + wait, Kind.WAIT, job.client, self.version))

    def _drop(self, job: Job, what: str, tally: Tally) -> None:
        """A device whose training diverged counts as arrived but not in any mean, and starts afresh."""
        if self.rules.on_divergence == "stop":
            raise Diverged(self.round + 1, job.client, what)
        self.dropped += 1
        if not self.sync:
            self._dispatch(self._next([job.client] * job.count))
        elif not self.jobs:
            self._aggregate(tally)

    def _aggregate(self, tally: Tally) -> None:
        jobs = sorted(self.arrived, key=lambda job: job.client)
        if jobs:  # all of a cohort may have been dropped
            self.merge(lambda: self._updates(jobs), tally)
        tally.staleness += [self.version - job.version for job in jobs]
        self.arrived, self.filled = [], 0
        contributors = [job.client for job in jobs for _ in range(job.count)]
        again = self.next_version()
        for unused in self.jobs.unused():
            self.sent.pop(unused, None)
        self._dispatch(contributors if again else self._next(contributors), again)

    def merge(self, updates: Callable[[], Updates], tally: Tally) -> None:
        begin = time.perf_counter()
        self.server = self.algo.aggregate(self.server, self._seen(updates()), self.fed)
        tally.aggregate_seconds += time.perf_counter() - begin
        if not self.server["w"].isfinite().all():
            raise Diverged(self.round + 1, None, "it is not finite although every update was")

    def next_version(self) -> bool:
        """Whether the same devices are to train once more before the version counts."""
        again, self.trace = self.sync and self.algo.repeat_round(self.server, self.fed), None
        self.traffic.aggregated(self.algo.sends(self.version, self.fed))
        self.version += 0 if again else 1
        return again

    def _updates(self, jobs: Sequence[Job]) -> Updates:
        return gather(jobs, self.server["w"], self.version, self.fed, self.sent, ~self.personal, self.rules.weighting)

    def _seen(self, updates: Updates) -> Updates:
        """What the method gets to see of them."""
        if self.trace is not None:
            self.last_trace = self.trace.means()
            updates = replace(updates, trace=self.last_trace)
        if self.rules.aggregation == "arrived":
            return updates
        remember(self.cache, updates, self.fed)
        return everyone(self.cache, self.server["w"], self.version, self.fed, self.rules.weighting)

    def state_dict(self) -> dict[str, Any]:
        return snapshot.take(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        snapshot.restore(self, state)

"""All state of a federation, and what happens to devices that are sent a model, a row each."""

from __future__ import annotations

import operator
import time
from collections import Counter
from collections.abc import Sequence
from itertools import repeat

from torch import Tensor

from algorithms.base import Algorithm, Fed, State
from bench.engine.pool import Trains
from bench.errors import Diverged
from bench.simulation.clock import Clock, RoundTrip
from bench.simulation.contract import checked
from bench.simulation.devices import Devices
from bench.simulation.dispatch import Dispatch, Job
from bench.simulation.flight import InFlight
from bench.simulation.learned import Learned, Outcomes, Uploads, finite
from bench.simulation.mail import Mail
from bench.simulation.memory import Memory
from bench.simulation.schedule import Rules
from bench.simulation.tally import Ended, Tally
from bench.simulation.traffic import Traffic
from bench.simulation.training import Learner, Training
from bench.simulation.transforms import Transforms
from bench.simulation.travel import travel
from bench.simulation.underway import Underway


class Coordinator:
    """Rows are drafted, learn, are received and merged: each is written here once, for one row or a whole cohort."""

    def __init__(
        self,
        algo: Algorithm,
        fed: Fed,
        engine: Trains,
        devices: Devices,
        rules: Rules,
        w0: Tensor,
        training: Learner | None = None,
    ) -> None:
        algo = checked(algo)
        self.algo, self.fed, self.engine, self.devices, self.rules = algo, fed, engine, devices, rules
        self.sync = rules.schedule.sync
        self.foreseeable = not (devices.population.loss or algo.mail)  # a job is fixed as a whole when it is dispatched
        self.at_once = self.sync and self.foreseeable
        unhurried = rules.on_divergence == "stop" and devices.population.max_wait is None
        waits = rules.schedule.buffer == 1 or not rules.schedule.at_once  # nobody begins before the next aggregation
        self.by_buffers = not self.sync and self.foreseeable and unhurried and waits
        self.arrivals_per_round = rules.arrivals_per_round or rules.schedule.buffer
        self.sync_stragglers = self.sync and rules.schedule.buffer > 1
        shared = ~engine.layout.part(algo.personal)
        self.transforms = Transforms(rules.upload, algo, fed, shared, devices.seed, w0)
        self.training: Learner = training or Training(algo, fed, engine, rules, w0, self.transforms)
        self.underway = Underway(engine)
        self.server = algo.init_server(w0, fed)
        own = {"w": w0} if algo.personal != "none" or algo.keeps_unsent else {}
        sent = {"sent": fed.all_layers} if algo.keeps_unsent else {}
        self.memory = Memory({**algo.init_client(w0, fed), **own, **sent}, fed.clients)
        self.clock = Clock(counts_starts=self.by_buffers)
        self.traffic = Traffic(algo, fed, shared, rules.upload)
        self.bytes_down = self.traffic.download_size(self.server, algo)  # to a device
        self.version = self.round = self.arrivals = self.evaluations = self.next_job = self.dropped = 0
        self.dispatches: Counter[int] = Counter()
        self.jobs, self.mail = InFlight(), Mail()
        self.arrived: list[Job] = []  # in the buffer
        self.filled = 0  # places in it that are taken
        self.samples: list[float] = fed.samples.tolist()
        self.trips: dict[int, RoundTrip] = {}
        self.tally: Tally | None = None  # of the round under way
        self.again: list[int] | None = None  # who trains once more before its version counts
        self.ended: list[Ended] = []  # jobs of this round, for the timeline
        self.sent: dict[int, State] = {}  # version -> broadcast tensors that some job still needs
        self.out_of_time = False

    def deployed(self) -> Tensor:
        return self.algo.deployed(self.server, self.memory, self.fed)

    def first(self) -> list[int]:
        everyone, places = range(self.fed.clients), self.rules.schedule.concurrency
        full = not self.sync and places == self.fed.clients
        return list(everyone) if full else self.devices.draw(self.version, everyone, places)

    def draft(self, drawn: Sequence[int], repeat: bool = False) -> Dispatch:
        """The current model for these devices: what each will do and send, to whom, and when it arrives. Nothing has
        happened yet; `dispatched` says that it has."""
        self.sent[self.version] = {name: self.server[name] for name in self.algo.broadcast}
        clients = sorted(set(drawn))
        each, numbers = len(clients), [self.dispatches[client] - repeat for client in clients]
        counts = [1] * each if each == len(drawn) else list(map(Counter(drawn).__getitem__, clients))
        (layers, up), down = self.traffic.upload(self.version), self.bytes_down
        own: list[State] = [{}] * each
        if self.algo.unicast:
            own = [{name: self.server[name][client].clone() for name in self.algo.unicast} for client in clients]
        mail = self.algo.mail
        rows = Dispatch(
            client=clients,
            number=numbers,
            count=counts,
            version=[self.version] * each,
            epochs=self.devices.grant(self.version, clients, numbers, self.fed.epochs, self.sync_stragglers),
            steps_per_epoch=self.engine.batches.steps_an_epoch(clients),
            layers=[layers] * each,
            recipients=[row[mail].nonzero()[:, 0].tolist() for row in own] if mail else [[]] * each,
            bytes_up=[up] * each,
            bytes_down=[down] * each,
            dispatched=[self.clock.now] * each,
            begins=self.devices.downloaded(clients, down, self.clock.now),
            unicast=own,
        )
        travel(rows, self.devices, self._timeout, self.algo.retransmit)
        return rows

    def dispatched(self, rows: Dispatch, repeat: bool) -> None:
        if not repeat:
            self.dispatches.update(rows.client)

    def learn(self, rows: Dispatch) -> Learned:
        """What these devices will upload. Whoever stops it (bench/engine/steps.py) finds the state as it was before."""
        self.underway.begin(rows)
        learned = self.training.learn(rows, self.sent, self.memory)
        self.underway.end()
        return learned

    def _receive(self, rows: Dispatch, learned: Learned | Outcomes, tally: Tally) -> list[int]:
        """Uploads come in; returns the ones that count."""
        order = sorted(range(len(rows)), key=rows.arrival.__getitem__)  # ties in the order of the devices
        self._account(rows, learned, order, "arrived")
        self.arrivals += sum(rows.count)
        kept = self._without_diverged(rows, learned, order)
        counted = order if len(kept) == len(order) else sorted(kept, key=rows.arrival.__getitem__)
        clients, count = rows.client, rows.count
        samples = map(self.samples.__getitem__, map(clients.__getitem__, counted))
        weights = map(operator.mul, samples, map(count.__getitem__, counted))
        tally.add(map(learned.losses.__getitem__, counted), weights)
        if learned.memory:
            for k in kept:
                self.memory.write(clients[k], {name: values[k] for name, values in learned.memory.items()})
                if self.algo.keeps_unsent:
                    self.memory.write(clients[k], {"sent": self.fed.all_layers.new_tensor(rows.layers[k])})
        return kept

    def _account(self, rows: Dispatch, learned: Learned | Outcomes, order: Sequence[int], outcome: str) -> None:
        """What was sent and computed counts, whether it arrived or not."""
        self.traffic.up += sum(map(operator.mul, rows.bytes_up, rows.attempts))
        if self.algo.mail:
            self.traffic.peer += self.traffic.message * sum(map(len, rows.recipients))
        self.evaluations += sum(learned.computed)
        columns = (rows.client, rows.version, rows.dispatched, rows.begins, rows.finish, rows.arrival)
        ended = list(zip(*columns, repeat(outcome, len(rows)), strict=True))
        self.ended += map(ended.__getitem__, order)

    def _without_diverged(self, rows: Dispatch, learned: Learned | Outcomes, order: Sequence[int]) -> list[int]:
        """A device whose training diverged counts as arrived but not in any mean, and starts afresh."""
        if not learned.not_finite:
            return list(range(len(rows)))
        bad = {k: learned.not_finite[k] for k in order if k in learned.not_finite}
        if self.rules.on_divergence == "stop":
            first, what = next(iter(bad.items()))
            raise Diverged(self.round + 1, rows.client[first], what)
        self.dropped += len(bad)
        return [k for k in range(len(rows)) if k not in bad]

    def merge(self, rows: Dispatch, learned: Uploads, tally: Tally) -> None:
        """Makes the server's next state of these rows, which are in client order."""
        begin = time.perf_counter()
        self.server = self.training.merge(self.server, self.version, rows, learned, self.sent)
        tally.aggregate_seconds += time.perf_counter() - begin
        tally.staleness += [self.version - version for version in rows.version]
        if not finite(self.server["w"]):
            raise Diverged(self.round + 1, None, "it is not finite although every update was")

    def next_version(self) -> bool:
        """Whether the same devices are to train once more before the version counts."""
        repeat = self.sync and self.algo.repeat_round(self.server, self.fed)
        if repeat:
            self.transforms.undo()
        self.traffic.aggregated(self.version)
        self.version += 0 if repeat else 1
        return repeat

    def _timeout(self, client: int) -> float:
        return (self.trips.get(client) or RoundTrip()).timeout

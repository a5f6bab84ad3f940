"""What a loop has computed for it: devices are trained, and the server makes the next version of what they upload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from algorithms.base import Algorithm, Fed, Jobs, State, Trained, Updates
from algorithms.views import Trace
from bench.engine.pool import Trains
from bench.engine.trace import TraceSums
from bench.simulation.dispatch import Dispatch
from bench.simulation.learned import Learned, Uploads, column
from bench.simulation.memory import Memory
from bench.simulation.schedule import Rules
from bench.simulation.transforms import Transforms

Sent = Mapping[int, State]  # version -> what was broadcast with it


class Learner(Protocol):
    """What the loop needs of it; a forecast has one that learns nothing."""

    jobs_per_call: int
    cache: Memory
    last_trace: Trace | None

    def learn(self, rows: Dispatch, sent: Sent, memory: Memory) -> Learned: ...
    def merge(self, server: State, version: int, rows: Dispatch, learned: Uploads, sent: Sent) -> State: ...


class Training:
    def __init__(
        self, algo: Algorithm, fed: Fed, engine: Trains, rules: Rules, w0: Tensor, transforms: Transforms
    ) -> None:
        self.algo, self.fed, self.engine, self.rules, self.transforms = algo, fed, engine, rules, transforms
        self.jobs_per_call = rules.jobs_per_call(w0.numel(), engine.parallel_parts)
        self.personal = engine.layout.part(algo.personal)  # [P]: the part of w that stays on the device
        self._shared = ~self.personal if bool(self.personal.any()) else None
        # aggregation=cached: the devices' last models, and the versions from which their staleness counts
        self.cache = Memory({"w": w0, "version": w0.new_zeros(())}, fed.clients)
        self.last_trace: Trace | None = None
        self._sums: TraceSums | None = None  # of the round that is going on

    def learn(self, rows: Dispatch, sent: Sent, memory: Memory) -> Learned:
        """Trains the devices, in calls of as many as memory allows."""
        calls, most, ends = range(0, len(rows), self.jobs_per_call), self.jobs_per_call, any(rows.lost)
        parts = [rows.take(range(begin, min(begin + most, len(rows)))) for begin in calls]
        return Learned.join([self._call(part, sent, memory, ends) for part in parts])

    def _call(self, rows: Dispatch, sent: Sent, memory: Memory, ends: bool) -> Learned:
        jobs = inputs(rows, self.algo, self.fed, sent, memory, self.personal)
        if "trace" in self.algo.requires and self._sums is None:
            self._sums = TraceSums.zeros(self.fed.epochs, jobs.received[0])
        trained, evaluations = self.engine.train(self.algo, self.fed, jobs, rows.number, self._sums)
        trained = _carried(rows, trained)
        upload = self.algo.upload(jobs, trained, self.fed)
        stays = self.algo.personal != "none" or self.algo.keeps_unsent
        return Learned(
            delta=upload.delta,
            extra=upload.extra,
            memory={**upload.memory, "w": trained.end} if stays else upload.memory,
            gradient=upload.gradient,
            end=trained.end if ends else None,
            steps=trained.steps,
            effective_steps=trained.effective_steps,
            lr_sum=trained.lr_sum,
            loss=trained.loss,
            evaluations=column(evaluations, trained.loss, torch.long),
        )

    def merge(self, server: State, version: int, rows: Dispatch, learned: Uploads, sent: Sent) -> State:
        """The server's next state."""
        learned = self.transforms.received(rows, learned)
        found = updates(server["w"], version, rows, learned, self.fed, sent, self._shared, self.rules.weighting)
        if self._sums is not None:
            self.last_trace, self._sums = self._sums.means(), None
            found = replace(found, trace=self.last_trace)
        if self.rules.aggregation == "cached":
            date = torch.full_like(found.version, version) if self.algo.dates_on_arrival else found.version
            _remember(self.cache, found, date, self.fed)
            found = _everyone(self.cache, found.layers.any(0), server["w"], version, self.fed, self.rules.weighting)
        return self.algo.aggregate(server, found, self.fed)


def inputs(rows: Dispatch, algo: Algorithm, fed: Fed, sent: Sent, memory: Memory, personal: Tensor) -> Jobs:
    """What the devices train with; `personal` [P] is the part of w that stays on a device."""
    server = {name: _broadcast(rows, sent, name) for name in algo.broadcast}
    server |= {name: torch.stack([own[name] for own in rows.unicast]) for name in algo.unicast}
    remembered, received = memory.read(rows.client), server["w"]
    start = received if algo.personal == "none" else torch.where(personal, remembered["w"], received)
    if algo.keeps_unsent:
        start = torch.where(fed.layout.expand(remembered["sent"]), start, remembered["w"])
    if rows.goes_on:
        start = torch.stack([row if own is None else own for own, row in zip(rows.start, start, strict=True)])
    mail = senders = None
    if algo.mail:
        nothing = torch.zeros_like(received[0])
        mail = torch.stack([nothing if read is None else read for read in rows.mail])
        senders = received.new_tensor(rows.senders)
    client = column(rows.client, received, torch.long)
    return Jobs(
        client=client,
        version=column(rows.version, received, torch.long),
        start=start,
        received=received,
        samples=fed.samples[client],
        epochs=column(rows.epochs, received, torch.long),
        steps_per_epoch=column(rows.steps_per_epoch, received, torch.long),
        server=server,
        memory=remembered,
        mail=mail,
        senders=senders,
    )


def updates(
    w: Tensor,
    version: int,
    rows: Dispatch,
    learned: Uploads,
    fed: Fed,
    sent: Sent,
    shared: Tensor | None,
    weighting: str,
) -> Updates:
    """What the server aggregates into w, rows in client order; what was not sent, or never is (`shared` [P] is false;
    None: all is), is as if unchanged."""
    client, count = column(rows.client, w, torch.long), column(rows.count, w)
    samples, received = fed.samples[client], _broadcast(rows, sent, "w")
    layers, delta, base = _layers(rows, w), learned.delta, received
    if shared is not None or not rows.whole:
        there = fed.layout.expand(layers)
        there = there if shared is None else there & shared
        delta, base = torch.where(there, delta, torch.zeros_like(delta)), torch.where(there, received, w)
    return Updates(
        client=client,
        version=column(rows.version, w),
        staleness=column([version - downloaded for downloaded in rows.version], w),
        samples=samples,
        count=count,
        epochs=column(rows.epochs, w),
        steps=learned.steps,
        effective_steps=learned.effective_steps,
        lr_sum=learned.lr_sum,
        loss=learned.loss,
        layers=layers,
        received=received,
        delta=delta,
        base=base,
        weight=_weights(count, samples, weighting),
        extra=learned.extra,
    )


def _broadcast(rows: Dispatch, sent: Sent, name: str) -> Tensor:
    """[K, ...]: what each device downloaded; without a copy where all downloaded the same version."""
    first, *others = dict.fromkeys(rows.version)
    if not others:
        return sent[first][name].expand(len(rows), *sent[first][name].shape)
    return torch.stack([sent[version][name] for version in rows.version])


def _layers(rows: Dispatch, like: Tensor) -> Tensor:
    first = rows.layers[0]
    if rows.layers.count(first) == len(rows):
        return torch.tensor(first, device=like.device).expand(len(rows), -1)
    return torch.tensor(rows.layers, device=like.device)


def _carried(rows: Dispatch, trained: Trained) -> Trained:
    """A lost job and its continuation are one longer job: what it did counts from `received`."""
    if not rows.goes_on:
        return trained
    before = trained.steps.new_tensor(rows.carried).T
    return replace(
        trained, **{name: getattr(trained, name) + done for name, done in zip(Learned.CARRIED, before, strict=True)}
    )


def _remember(cache: Memory, updates: Updates, date: Tensor, fed: Fed) -> None:
    """aggregation=cached: these devices' models, in the layers they sent, and the versions [K] they are of."""
    for k, client in enumerate(updates.client.tolist()):
        there = fed.layout.expand(updates.layers[k])
        model = torch.where(there, updates.model[k], cache.read([client])["w"][0])
        cache.write(client, {"w": model, "version": date[k]})


def _everyone(cache: Memory, sent: Tensor, w: Tensor, version: int, fed: Fed, weighting: str) -> Updates:
    """aggregation=cached: every device's last model, the initial one of those never heard of, in the layers `sent` [L]
    by somebody this time; the others are as if nobody had."""
    model, versions = cache.rows("w"), cache.rows("version")
    if not sent.all():
        model = torch.where(fed.layout.expand(sent), model, w)
    nothing, one = torch.zeros_like(fed.samples), torch.ones_like(fed.samples)
    return Updates(
        client=torch.arange(fed.clients, device=w.device),
        version=versions,
        staleness=version - versions,
        samples=fed.samples,
        count=one,
        epochs=nothing,
        steps=nothing,
        effective_steps=nothing,
        lr_sum=nothing,
        loss=nothing,
        layers=sent.expand(fed.clients, -1),
        received=w.expand_as(model),
        delta=model - w,
        base=w.expand_as(model),
        weight=_weights(one, fed.samples, weighting),
    )


def _weights(count: Tensor, samples: Tensor, weighting: str) -> Tensor:
    raw = count * samples if weighting == "size" else count
    return raw / raw.sum()

"""A synchronous round without losses: all that happens in it is known at its dispatch, so no event is waited for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from algorithms.base import Jobs, Trained, Updates, Upload
from bench.errors import Diverged
from bench.simulation.dispatch import Dispatch
from bench.simulation.jobs import Learned, not_finite, sent_only, starts, weights
from bench.simulation.tally import Tally

if TYPE_CHECKING:
    from bench.simulation.loop import FederatedLoop

Columns = TypeVar("Columns", Trained, Upload)


def run(loop: FederatedLoop, tally: Tally) -> None:
    """To the next version, or until the virtual time is up."""
    drawn, again = loop.first(), False
    while True:
        sent = loop.draft(drawn, again)
        kept = _finish(loop, sent, tally)
        if loop.out_of_time:
            return
        drawn = [sent.client[k] for k in kept for _ in range(sent.count[k])]
        if not (again := loop.next_version()):
            return


def _finish(loop: FederatedLoop, sent: Dispatch, tally: Tally) -> list[int]:
    """Trains and aggregates; returns the rows that counted."""
    finish, arrival = loop.devices.times(sent)
    until = loop.rules.virtual_seconds
    loop.traffic.down += sent.bytes_down * sum(begins <= until for begins in sent.begins)
    order = sorted(range(len(sent)), key=arrival.__getitem__)  # ties in the order of the numbers
    last = arrival[order[-1]]
    if last > until:
        loop.out_of_time, last = True, until
        order = [k for k in order if arrival[k] <= until]
    loop.clock.now = last
    if not order:
        return []
    which = sorted(order)
    learned = loop.learn(sent, which)
    loss, finite = learned.trained.loss.tolist(), learned.finite
    bad: dict[int, str] = {}
    if not (all(finite) and all(map(math.isfinite, loss))):
        bad = {k: what for k, one, fine in zip(which, loss, finite, strict=True) if (what := not_finite(one, fine))}
    first = next((k for k in order if k in bad), None)
    if first is not None and loop.rules.on_divergence == "stop":
        raise Diverged(loop.round + 1, sent.client[first], bad[first])
    _account(loop, sent, order, finish, arrival, learned.evaluations)
    loop.dropped += len(bad)
    losses, well = dict(zip(which, loss, strict=True)), [k for k in order if k not in bad] if bad else order
    tally.add([losses[k] for k in well], [loop.samples[sent.client[k]] * sent.count[k] for k in well])
    rows = [row for row, k in enumerate(which) if k not in bad]
    kept = [which[row] for row in rows]
    if mine := learned.mine(loop.algo):
        for row in rows:
            loop.memory.write(sent.client[which[row]], {name: values[row] for name, values in mine.items()})
    if kept and not loop.out_of_time:
        loop.merge(
            lambda: _updates(loop, sent, kept, learned if len(rows) == len(which) else _take(learned, rows)), tally
        )
        tally.staleness += [0] * len(kept)
    return kept


def _account(
    loop: FederatedLoop,
    sent: Dispatch,
    order: Sequence[int],
    finish: Sequence[float],
    arrival: Sequence[float],
    evaluations: Sequence[int],
) -> None:
    loop.traffic.up += sent.bytes_up * len(order)
    loop.evaluations += sum(evaluations)
    loop.arrivals += sum(sent.count[k] for k in order)
    columns = ([values[k] for k in order] for values in (sent.client, sent.begins, finish, arrival))
    for client, begins, finished, arrived in zip(*columns, strict=True):
        loop.ended.append((client, sent.version, sent.time, begins, finished, arrived, "arrived"))


def learn(loop: FederatedLoop, sent: Dispatch, which: Sequence[int]) -> Learned:
    """Trains these rows, in calls of as many as memory allows."""
    parts = []
    for begin in range(0, len(which), loop.batch):
        some = which[begin : begin + loop.batch]
        rows = _inputs(loop, sent, some)
        trained, evaluations = loop.train(rows, [sent.number[k] for k in some])
        parts.append(Learned(trained, loop.algo.upload(rows, trained, loop.fed), evaluations))
    if len(parts) == 1:
        return parts[0]
    trained = _map([part.trained for part in parts], torch.cat)
    upload = _map([part.upload for part in parts], torch.cat)
    return Learned(trained, upload, [n for part in parts for n in part.evaluations])


def _inputs(loop: FederatedLoop, sent: Dispatch, which: Sequence[int]) -> Jobs:
    w, count = loop.server["w"], len(which)
    clients = [sent.client[k] for k in which]
    server = {name: loop.server[name].expand(count, *loop.server[name].shape) for name in loop.algo.broadcast}
    mine = loop.memory.read(clients)

    def long(values: list[int]) -> Tensor:
        return torch.tensor(values, device=w.device)

    return Jobs(
        client=(client := long(clients)),
        version=torch.full_like(client, sent.version),
        start=starts(server["w"], mine, loop.algo, loop.personal),
        received=server["w"],
        samples=loop.fed.samples[client],
        epochs=long([sent.epochs[k] for k in which]),
        steps_per_epoch=long([sent.steps_per_epoch[k] for k in which]),
        server=server,
        memory=mine,
    )


def _updates(loop: FederatedLoop, sent: Dispatch, which: Sequence[int], learned: Learned) -> Updates:
    w, fed, trained = loop.server["w"], loop.fed, learned.trained

    def numbers(values: Sequence[float]) -> Tensor:
        return w.new_tensor([values[k] for k in which])

    client = torch.tensor([sent.client[k] for k in which], device=w.device)
    count, samples = numbers(sent.count), fed.samples[client]
    layers = torch.tensor(sent.layers, device=w.device).expand(len(which), -1)
    received = w.expand(len(which), -1)
    delta, base = sent_only(w, received, learned.upload.delta, layers, fed, ~loop.personal)
    return Updates(
        client=client,
        version=w.new_full((len(which),), sent.version),
        staleness=w.new_zeros(len(which)),
        samples=samples,
        count=count,
        epochs=numbers(sent.epochs),
        steps=trained.steps,
        effective_steps=trained.effective_steps,
        lr_sum=trained.lr_sum,
        loss=trained.loss,
        layers=layers,
        received=received,
        delta=delta,
        base=base,
        weight=weights(count, samples, loop.rules.weighting),
        extra=learned.upload.extra,
    )


def _take(learned: Learned, rows: Sequence[int]) -> Learned:
    index = torch.tensor(rows, device=learned.trained.loss.device)

    def some(parts: Sequence[Tensor]) -> Tensor:
        return parts[0][index]

    trained, upload = _map([learned.trained], some), _map([learned.upload], some)
    return Learned(trained, upload, [learned.evaluations[row] for row in rows])


def _map(parts: Sequence[Columns], how: Callable[[list[Tensor]], Tensor]) -> Columns:
    """The same fields of all parts, tensors or dictionaries of them, made into one."""

    def one(values: list[Any]) -> Any:
        if isinstance(values[0], dict):
            return {name: how([value[name] for value in values]) for name in values[0]}
        return None if values[0] is None else how(values)

    kind = type(parts[0])
    return kind(**{f.name: one([getattr(part, f.name) for part in parts]) for f in fields(kind)})

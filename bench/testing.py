"""Check a method against a derivation on paper: any algorithm on an exactly solvable federation, in float64."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from algorithms.base import Algorithm, Fed, Schedule, State
from bench.engine.eager import Eager
from bench.errors import unknown
from bench.learning.batches import Batch, Batches
from bench.learning.flat import Layout, trainable
from bench.prepare.prerun import Prerun
from bench.prepare.registry import classes, defaults
from bench.simulation.devices import Devices, Population
from bench.simulation.dispatch import Dispatch
from bench.simulation.loop import FederatedLoop
from bench.simulation.schedule import Rules


@dataclass(frozen=True)
class Trajectory:
    """`w[t]` [rounds + 1, P]: the server's model after t aggregations; `server`, `clients`: the states at the end,
    the latter with one row for each device; `rows`: what metrics.csv would hold, for each aggregation of a synchronous
    schedule, for each arrival of an asynchronous one."""

    w: Tensor
    server: State
    clients: State
    rows: list[dict[str, float]]


class Quadratic(nn.Module):
    """Client i's loss is w'A_i w/2 - b_i'w; a sample is the number of its client."""

    def __init__(self, a: Tensor, b: Tensor, w0: Tensor, deep: int) -> None:
        super().__init__()
        self.a, self.b = a, b
        cut = len(w0) - deep
        self.parts = nn.ModuleDict()
        for name, part in (("shallow", w0[:cut]), ("deep", w0[cut:])):
            if len(part):
                self.parts[name] = nn.ParameterList([nn.Parameter(part.clone())])
        self.deep = ("parts.deep",)
        self.head = "parts.deep" if deep else "parts.shallow"

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        w = torch.cat(list(self.parameters()))
        client = batch[0]
        return 0.5 * (self.a[client] @ w) @ w - self.b[client] @ w


@dataclass(frozen=True)
class Script(Devices):
    """Devices whose draws, steps and times are written down, by the version they download."""

    cohorts: Sequence[Sequence[int]] | None = None
    steps: np.ndarray | None = None  # [rounds, N]
    seconds: np.ndarray | None = None  # [rounds, N]
    epochs: int = 1  # of a device that is no straggler

    def _at(self, table: Any, version: int) -> Any:
        return table[min(version, len(table) - 1)]  # beyond the last round nothing is trained any more

    def draw(self, version: int, idle: Sequence[int], places: int, *more: int) -> list[int]:
        if self.cohorts is None or more:
            return super().draw(version, idle, places, *more)
        return [int(client) for client in self._at(self.cohorts, version)]

    def grant(
        self, version: int, clients: Sequence[int], dispatch: Sequence[int], epochs: int, sync: bool
    ) -> list[int]:
        return [int(self._at(self.steps, version)[client]) for client in clients]

    def times(self, rows: Dispatch) -> tuple[list[float], list[float]]:
        if self.seconds is None:
            return super().times(rows)
        jobs = zip(rows.begins, rows.version, rows.client, strict=True)
        finish = [begins + float(self._at(self.seconds, version)[client]) for begins, version, client in jobs]
        return finish, list(map(self.upload_seconds, rows.client, rows.bytes_up))


KEYS: dict[str, Any] = {
    "epochs": None,
    "epoch_steps": 1,
    "cohort": None,
    "concurrency": None,
    "buffer": None,
    "refill": None,
    "momentum": 0.0,
    "weight_decay": 0.0,
    "optimizer": None,
    "clip_norm": None,
    "lr_decay": 1.0,
    "weighting": "size",
    "sampling": "without_replacement",
    "aggregation": "arrived",
    "on_divergence": "stop",
    "seed": 0,
    "deep": 0,
    "devices": {},
    "upload": (),
    "batch": None,
}


def _method(algo: Algorithm | str, fields: dict[str, Any]) -> Algorithm:
    if isinstance(algo, Algorithm):
        return replace(algo, **fields)
    known = classes("algo")
    if algo not in known:
        raise unknown("algorithm", algo, known)
    for name in fields:
        if name not in defaults(known[algo]):
            raise unknown(f"field of {algo}", name, defaults(known[algo]))
    method: Algorithm = known[algo](**fields)
    return method


def _table(values: Any, name: str, rounds: int, clients: int, dtype: type) -> np.ndarray:
    """A number, [N] or [rounds, N] as [rounds, N]."""
    array: np.ndarray = np.asarray(values, dtype=dtype)
    if array.shape not in ((), (clients,), (rounds, clients)):
        raise ValueError(f"{name} is a number, [{clients}] or [{rounds}, {clients}], not {list(array.shape)}")
    return np.broadcast_to(array, (rounds, clients))


def quadratic(
    algo: Algorithm | str,
    A: Any,
    b: Any,
    *,
    w0: Any,
    lr: float,
    rounds: int,
    samples: Any,
    cohorts: Sequence[Sequence[int]] | None = None,
    steps: Any,
    seconds: Any = None,
    **keys: Any,
) -> Trajectory:
    """Runs `algo` (an Algorithm or its CLI name, its fields as `algo.x` in keys) on clients whose loss is
    w'A_i w/2 - b_i'w and whose every local step is the exact gradient, through the real kernel, loop and clock.

    `rounds` counts aggregations. `steps` (a number, [N] or [rounds, N]) and `seconds` (the same; the time of one
    dispatch, however many its steps; one by default) are indexed by the version downloaded; one step is one epoch, so
    fewer than the key `epochs` (default: the most) makes a straggler; with the key `epoch_steps` (a number or [N])
    `steps` counts epochs, each of so many. Synchronous: `cohorts[t]` lists the clients of
    round t, a repeated one was drawn twice; without it the loop draws `cohort` (default: all). Asynchronous: all start
    at time 0 and links are instant. `deep=k`: the last k coordinates are the deep layer and the head. Other keys:
    concurrency, buffer, refill, momentum, weight_decay, clip_norm, lr_decay (from one version to the next), weighting,
    sampling, aggregation, on_divergence, seed, batch, optimizer (an algorithms.base.Adam), devices, a dictionary
    with links, loss and max_wait as in the group `devices`, and upload, a row of transforms (algorithms/uploads/).
    """
    fields = {name.removeprefix("algo."): keys.pop(name) for name in list(keys) if name.startswith("algo.")}
    for name in keys:
        if name not in KEYS:
            raise unknown("key", name, [*KEYS, "algo.<field>"])
    key = {**KEYS, **keys}
    method = _method(algo, fields)
    if method.plain_sgd and (key["optimizer"], key["clip_norm"]) != (None, None):
        raise ValueError(f"the maths of {type(method).__name__} needs plain SGD on the devices")
    a, bias, start, weight = (torch.as_tensor(np.asarray(v), dtype=torch.float64) for v in (A, b, w0, samples))
    script = _script(len(a), rounds, cohorts, steps, 1.0 if seconds is None else seconds, key)
    module = Quadratic(a, bias, start, key["deep"])
    layout = Layout(module)
    fed = Fed(
        clients=len(a),
        cohort=key["cohort"] or (len(cohorts[0]) if cohorts is not None else len(a)),
        rounds=rounds,
        epochs=script.epochs,
        lr=lr,
        momentum=key["momentum"],
        decay=key["weight_decay"],
        optimizer=key["optimizer"],
        clip=key["clip_norm"],
        lr_decay=key["lr_decay"],
        samples=weight,
        layout=layout,
        gamma=script.gamma,
    )
    rules = _rules(method.schedule(fed), key)
    batches = _batches(np.broadcast_to(key["epoch_steps"], len(a)), key["seed"])
    engine, start = Eager(module, layout, batches), layout.flatten(trainable(module))

    def prerun(recorder: Algorithm) -> FederatedLoop:
        return FederatedLoop(recorder, fed, engine, script, replace(rules, rounds=rounds, upload=()), start)

    fed = replace(fed, trace=Prerun(prerun, method.requires))
    return _traced(FederatedLoop(method, fed, engine, script, rules, start), rounds)


def sequential_steps(
    algo: Algorithm | str, *, clients: int, cohort: int, rounds: int, seconds: tuple[float, float], **keys: Any
) -> np.ndarray:
    """[rounds + 1]: how many dispatches, one after the other, a model is worth after each aggregation, by its schedule
    and its weights alone. Every dispatch moves its model by one, whatever the model; seconds are drawn uniformly. A
    synchronous mean of fresh models gains one a round, stale ones less."""
    times = np.random.default_rng(keys.get("seed", 0)).uniform(*seconds, (rounds, clients))
    trace = quadratic(
        algo,
        np.zeros((clients, 1, 1)),
        np.ones((clients, 1)),
        w0=[0.0],
        lr=1.0,
        rounds=rounds,
        samples=np.ones(clients),
        steps=1,
        seconds=times,
        cohort=cohort,
        **keys,
    )
    found: np.ndarray = trace.w[:, 0].numpy()
    return found


def _script(
    clients: int, rounds: int, cohorts: Sequence[Sequence[int]] | None, steps: Any, seconds: Any, key: dict[str, Any]
) -> Script:
    if rounds < 1:
        raise ValueError(f"rounds is at least 1, not {rounds}")
    table = _table(steps, "steps", rounds, clients, np.int64)
    times = _table(seconds, "seconds", rounds, clients, np.float64)
    if cohorts is not None and (
        len(cohorts) < rounds or any(not len(c) or min(c) < 0 or max(c) >= clients for c in cohorts)
    ):
        raise ValueError(f"cohorts lists for each of {rounds} rounds one or more of the clients 0 to {clients - 1}")
    epochs = int(table.max() if key["epochs"] is None else key["epochs"])
    if table.min() < 1 or table.max() > epochs or times.min() <= 0:
        raise ValueError("steps lie between 1 and `epochs`, seconds above 0")
    population = Population(**key["devices"])
    return Script(
        clients, key["seed"], key["sampling"], population, cohorts=cohorts, steps=table, seconds=times, epochs=epochs
    )


def _batches(steps: np.ndarray, seed: int) -> Batches:
    """A device's only sample, its own number, is there `steps` times; each is a step."""
    index, own = torch.arange(len(steps)), [np.full(n, i) for i, n in enumerate(steps)]
    return Batches(index, index, own, lambda x: x, batch_size=1, classes=len(steps), seed=seed)


def _rules(own: Schedule, key: dict[str, Any]) -> Rules:
    return Rules(
        Schedule(key["concurrency"] or own.concurrency, key["buffer"] or own.buffer, key["refill"] or own.refill),
        rounds=sys.maxsize,  # counted by `quadratic`, in aggregations
        weighting=key["weighting"],
        aggregation=key["aggregation"],
        on_divergence=key["on_divergence"],
        arrivals_per_round=1,
        batch=key["batch"],
        upload=tuple(key["upload"]),
    )


def _traced(loop: FederatedLoop, rounds: int) -> Trajectory:
    ws = [loop.server["w"].clone()]
    rows = []
    while loop.version < rounds:
        rows.append(loop.advance())
        if loop.version == len(ws):
            ws.append(loop.server["w"].clone())
    names = loop.memory.initial
    return Trajectory(torch.stack(ws), dict(loop.server), {name: loop.memory.rows(name) for name in names}, rows)

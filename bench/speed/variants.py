"""Every way of running a round that `python -m bench speed` measures."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from algorithms.base import Algorithm, Fed, Jobs, LocalRule, Schedule, Trained, Upload
from bench.engine import choose
from bench.engine.base import Engine
from bench.engine.eager import Eager
from bench.engine.pool import Spread, Trains
from bench.engine.process import Forked
from bench.engine.vmap import Vmap
from bench.engine.worker_service import WorkerService
from bench.learning.batches import Batches
from bench.learning.evaluate import Evaluate
from bench.learning.flat import Layout, trainable
from bench.learning.task_net import TaskNet
from bench.prepare.allocator import keep_memory, rare_collections
from bench.simulation.devices import Devices
from bench.simulation.loop import FederatedLoop
from bench.simulation.schedule import Rules
from bench.speed.baselines import floor, plain, trainer
from bench.speed.work import LR, Data, Round, Workload

ALWAYS = 10**6  # rounds


@dataclass(frozen=True, kw_only=True)
class Drift(Algorithm):
    """FedAvg with a constant drift vector: what SCAFFOLD's local step costs."""

    def local(self, jobs: Jobs, w: Tensor, epoch: int, fed: Fed) -> LocalRule:
        return LocalRule(drift=torch.full_like(w, 1e-6))


@dataclass(frozen=True, kw_only=True)
class Remembers(Algorithm):
    """FedAvg whose devices keep a vector, as SCAFFOLD's and FedDyn's do."""

    def init_client(self, w: Tensor, fed: Fed) -> dict[str, Tensor]:
        return {"c": torch.zeros_like(w)}

    def upload(self, jobs: Jobs, trained: Trained, fed: Fed) -> Upload:
        delta = trained.end - jobs.received
        return Upload(delta, memory={"c": delta})


class Scripted(Devices):
    """Grants each device its passes."""

    def __init__(self, load: Workload) -> None:
        super().__init__(load.clients, 0)
        self.load = load

    def grant(
        self, version: int, clients: Sequence[int], dispatch: Sequence[int], epochs: int, sync: bool
    ) -> list[int]:
        return [self.load.passes(client) for client in clients]


class Timed:
    """An engine that knows how long its last round of training took."""

    def __init__(self, engine: Trains) -> None:
        self.engine, self.seconds = engine, 0.0

    def train(self, *args: Any) -> Any:
        begin = time.perf_counter()
        try:
            return self.engine.train(*args)
        finally:
            self.seconds += time.perf_counter() - begin

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


def federated(
    load: Workload, data: Data, make: choose.Make, algo: Algorithm, cores: int = 1, asynchronous: bool = False
) -> Round:
    """Rounds of the real loop, as bench.run does them; asynchronous ones have as many uploads."""
    keep_memory()
    module = TaskNet(load.net())
    layout = Layout(module)
    batches = Batches(
        data.x, data.y, data.clients, data.inputs, batch_size=load.batch_size, classes=load.classes, seed=0
    )
    w0, cohort = layout.flatten(trainable(module)), load.cohort or load.clients
    constants = {"rounds": ALWAYS, "epochs": load.epochs, "lr": LR, "momentum": 0.0, "decay": 0.0}
    samples = w0.new_full((load.clients,), float(load.batch_size * load.steps))
    fed = Fed(clients=load.clients, cohort=cohort, **constants, samples=samples, layout=layout)  # type: ignore[arg-type]
    engine = Timed(spread(make(module, layout, batches), fed, cores))
    rules = Rules(Schedule(cohort, 1 if asynchronous else cohort), rounds=ALWAYS, arrivals_per_round=cohort)
    loop = FederatedLoop(algo, fed, cast(Engine, engine), Scripted(load), rules, w0)
    outside = [math.nan]

    def run() -> None:
        engine.seconds, begin = 0.0, time.perf_counter()
        with rare_collections():
            loop.advance()
        outside[0] = time.perf_counter() - begin - engine.seconds

    return Round(run, lambda: outside[0])


def spread(engine: Engine, fed: Fed, cores: int) -> Trains:
    """The engine with a worker on each core."""
    if cores == 1:
        return engine
    batches = engine.batches
    nothing = Evaluate(engine.module, engine.layout, batches.x[:1], batches.y[:1], batches.inputs)
    return Spread(engine, Forked(WorkerService(engine, fed, nothing), cores))


def auto(module: nn.Module, layout: Layout, batches: Batches) -> Engine:
    return choose.engine("auto", module, layout, batches, choose.Work(len(batches.clients), ALWAYS))[0]


def cores() -> int:
    return len(os.sched_getaffinity(0))


VARIANTS: dict[str, Callable[[Workload, Data], Round]] = {
    "plain": plain,
    "plain+drift": lambda load, data: plain(load, data, drift=True),
    "trainer": trainer,
    "eager": lambda load, data: federated(load, data, Eager, Algorithm()),
    "chain": lambda load, data: federated(load, data, choose.chain, Algorithm()),
    "native": lambda load, data: federated(load, data, choose.native, Algorithm()),
    "vmap": lambda load, data: federated(load, data, Vmap, Algorithm()),
    "best": lambda load, data: federated(load, data, auto, Algorithm(), cores()),
    "best+drift": lambda load, data: federated(load, data, auto, Drift(), cores()),
    "floor": floor,
}

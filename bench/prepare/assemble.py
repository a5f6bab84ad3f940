"""From a resolved config to everything a run needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from algorithms.base import Algorithm, Fed
from algorithms.uploads.base import Transform
from bench import models, own_code, trust
from bench.engine import choose
from bench.engine.head import HeadFit
from bench.engine.pool import Spread, ThisProcess, Trains, Workers
from bench.engine.process import Forked
from bench.engine.ray import Actors
from bench.engine.worker_service import WorkerService
from bench.errors import UserError
from bench.learning.batches import Batches
from bench.learning.evaluate import Evaluate
from bench.learning.flat import Layout, trainable
from bench.learning.services import LayerOutputs
from bench.models.custom import try_out
from bench.prepare import budget, count, fingerprints, own_task, plugins
from bench.prepare.allocator import keep_memory
from bench.prepare.prerun import Prerun
from bench.prepare.registry import create, transforms
from bench.seeding import stream
from bench.simulation.devices import Devices, Population
from bench.simulation.figures import Figures
from bench.simulation.loop import FederatedLoop
from bench.simulation.schedule import as_trained, constants, rules, with_decay
from datamodules.base import Loaded, Split


@dataclass(frozen=True)
class Parts:
    """What a run consists of."""

    config: Mapping[str, Any]  # to record: with the engine that was chosen, so that a resume takes the same one
    module: nn.Module
    workers: Workers  # processes that train and evaluate; to be closed when the run is over
    prerun: Prerun
    loop: FederatedLoop
    evaluate: Figures  # test figures of what is deployed now
    memory: budget.Need  # bytes, by what they are for
    data: dict[str, Any]  # facts for the record
    model: dict[str, Any]


@dataclass(frozen=True)
class WorkerSetup:
    """What every process that takes part in a run holds."""

    loaded: Loaded
    clients: list[np.ndarray]  # the samples of each device
    remark: str  # on how they were dealt, or nothing
    device: torch.device

    @classmethod
    def load(cls, config: Mapping[str, Any]) -> WorkerSetup:
        keep_memory()
        torch.set_num_threads(1)  # two threads in each of two processes make a step fifty times slower
        seed = config["seed"]
        loaded = plugins.load(config["dataset"], config["task"])
        if config["val_fraction"]:
            loaded = loaded.with_validation(config["val_fraction"], stream(seed, "validation"))
        clients, remark = plugins.deal(config, loaded, stream(seed, "partition"))
        if create(config["algo"]).pooled:
            clients = [np.unique(np.concatenate(clients))]
        return cls(loaded, clients, remark, _device(config["engine"]["device"]))

    def facts(self, name: str, tested: int) -> dict[str, Any]:
        """What the record says of the data, of which `tested` samples are evaluated on."""
        samples = [len(client) for client in self.clients]
        return {
            "name": name,
            "source": self.loaded.source,
            "train": len(self.loaded.train),
            "test": tested,
            "classes": self.loaded.classes,
            "clients": len(samples),
            "samples_per_client": [min(samples), max(samples)],
            "deviation": " ".join(filter(None, (self.loaded.deviation, self.remark))) or None,
        }

    def service(self, config: Mapping[str, Any]) -> tuple[WorkerService, str, dict[str, Any]]:
        """Also says why it has its engine, and what the record is to say of the model."""
        seed = config["seed"]
        net = models.build(config["model"], self.loaded.shape, self.loaded.classes, stream(seed, "init"))
        from bench.learning.module import local_module  # Lightning: only once little is left to refuse

        task = create(config["task"])
        module = local_module(config["model"], net, task).to(self.device)
        layout = Layout(module)
        w0 = layout.flatten(trainable(module))
        loaded = self.loaded.resized() if w0.dtype == torch.float32 else self.loaded
        inputs = partial(loaded.inputs, normalise=config["normalise"], dtype=w0.dtype)
        batches = Batches(
            loaded.train.x.to(self.device),
            loaded.labels(loaded.train).to(self.device),
            self.clients,
            inputs,
            loaded.augment if loaded.augments else None,
            batch_size=config["batch_size"],
            classes=loaded.classes,
            seed=seed,
            local_unit=config["local_unit"],
        )
        fed = Fed(
            **constants(config),
            samples=w0.new_tensor([len(c) for c in self.clients]),
            layout=layout,
            layer_outputs=LayerOutputs(module, layout, loaded, inputs, seed),
            fit_head=HeadFit(module, layout, task),
        )
        fed = with_decay(fed, config["lr_decay"], rules(config, create(config["algo"]), fed))
        test = _test(loaded, config["test_samples"])
        x, y = test.x.to(self.device), loaded.labels(test).to(self.device)
        facts = _model(config, module, layout, batches)
        engine, why = choose.engine(config["engine"]["name"], module, layout, batches, _work(config, batches))
        evaluate = Evaluate(module, layout, x, y, inputs, engine.answers, task, loaded.y_std)
        if own_code.is_own(task):
            own_task.try_out(evaluate, w0)
        return WorkerService(engine, fed, evaluate), why, facts


def build(
    config: Mapping[str, Any],
    folder: Callable[[Mapping[str, Any]], Path] | None = None,
    begun: Path | None = None,
) -> Parts:
    """`folder` makes or names the run's own, should something large have to be kept there; `begun` is that of a run
    that goes on, which it does with the data and code it began with only."""
    setup = WorkerSetup.load(config)
    if notice := plugins.same(setup.clients):
        print(f"note       {notice}", flush=True)
    prints = fingerprints.found(config, setup.loaded)
    if begun is not None:
        fingerprints.refuse_changes(begun, config, prints)
    samples, recorded = [len(client) for client in setup.clients], config
    config = as_trained(config, create(config["algo"]))
    memory = budget.check(config, setup.loaded, samples, setup.device)
    service, why, facts = setup.service(config)
    named = {**config["engine"], "name": service.engine.name}
    more = {"engine": named, "engine_why": config.get("engine_why") or why, "fingerprints": prints}
    config, recorded = {**config, **more}, {**recorded, **more}
    kept = partial(folder, recorded) if folder else None
    module, layout = service.engine.module, service.engine.layout
    devices = Devices(config["clients"], config["seed"], config["sampling"], Population(**config["devices"]))
    fed = replace(service.fed, gamma=devices.gamma)
    w0 = layout.flatten(trainable(module))

    def make(fed: Fed, engine: Trains, algo: Algorithm, upload: tuple[Transform, ...] = ()) -> FederatedLoop:
        return FederatedLoop(algo, fed, engine, devices, replace(rules(config, algo, fed), upload=upload), w0)

    try:
        algo = create(config["algo"])
        number = count.workers(config, layout.size, samples, rules(config, algo, fed), setup.device)
        prerun = Prerun(partial(make, fed, service.engine), algo.requires, kept)  # a worker has no other workers
        workers = _start(config, replace(service, fed=replace(fed, trace=prerun)), number)
        engine = service.engine if isinstance(workers, ThisProcess) else Spread(service.engine, workers)
        prerun = Prerun(partial(make, fed, engine), algo.requires, kept)
        loop = make(replace(fed, trace=prerun), engine, algo, transforms(config["upload"]))
    except UserError:
        raise
    except ValueError as error:  # a method that cannot work with this model
        raise UserError(f"{error}.") from None
    return Parts(
        config=recorded,
        module=module,
        workers=workers,
        prerun=prerun,
        loop=loop,
        evaluate=Figures(loop, service.evaluate, workers, stream(config["seed"], "watched")),
        memory=memory,
        data=setup.facts(config["dataset"]["name"], len(service.evaluate.y)) | {"sha256": prints["data"]},
        model=facts,
    )


def _work(config: Mapping[str, Any], batches: Batches) -> choose.Work:
    each = sum(batches.steps_per_epoch(client) for client in range(config["clients"])) / config["clients"]
    steps = round(each * config["rounds"] * config["epochs"] * config["cohort"])
    name, clip = config["optimizer"]["name"], config["clip_norm"]
    beyond = f"optimizer={name}" if name != "sgd" else None if clip is None else f"clip_norm={clip:g}"
    return choose.Work(together=max(config["concurrency"] or 0, config["cohort"]), steps=steps, beyond=beyond)


def _start(config: Mapping[str, Any], service: WorkerService, number: int) -> Workers:
    """Before anything starts threads, since the workers are forked."""
    asked, address = config["engine"]["workers"], config["engine"]["address"]
    if service.evaluate.y.device.type != "cpu":
        if (asked or 1) > 1 or address != "local":
            print("workers    1: on a GPU one process trains all devices; engine.device=cpu takes more", flush=True)
        return ThisProcess(service)
    if address != "local":
        return Actors(partial(remote_service, config), service, number, address)
    return ThisProcess(service) if number == 1 else Forked(service, number)


def remote_service(config: Mapping[str, Any]) -> WorkerService:
    """On another machine, which is sent nothing but the config."""
    for target in trust.targets(config).values():
        trust.name(target)  # as on the command line that sent it
    algo = create(config["algo"])  # a class in a file of the user's is known from here on
    return WorkerSetup.load(config).service(as_trained(config, algo))[0]


def _model(config: Mapping[str, Any], module: nn.Module, layout: Layout, batches: Batches) -> dict[str, Any]:
    """Facts for the record; a user's own module is tried out."""
    facts = {"name": config["model"]["name"], "parameters": layout.size}
    if config["model"]["name"] == "custom":
        some = batches.load(torch.arange(min(max(2, config["batch_size"]), len(batches.y)), device=batches.y.device))
        facts |= {"name": config["model"]["target"], "loss": try_out(module, some, batches.classes)}
    return facts


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("engine.device=cuda needs a GPU that torch can use; engine.device=cpu runs without one.")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else "cpu")


def _test(loaded: Loaded, samples: int | None) -> Split:
    """The test set, or a fixed random part of it, the same in every run."""
    if samples is None or samples >= len(loaded.test):
        return loaded.test
    index = torch.from_numpy(stream(0, "test_samples").permutation(len(loaded.test))[:samples])
    return loaded.test.take(index)

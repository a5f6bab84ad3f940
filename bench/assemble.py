"""From a resolved config to everything a run needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from algorithms.base import Algorithm, Fed
from bench import budget, models
from bench.batches import Batches
from bench.clock import Devices, Population
from bench.engine import choose
from bench.engine.head import HeadFit
from bench.errors import UserError
from bench.evaluate import Evaluate
from bench.figures import Figures
from bench.flat import Layout, trainable
from bench.loop import FederatedLoop
from bench.models.custom import try_out
from bench.prerun import Prerun
from bench.registry import create
from bench.schedule import rules
from bench.seeding import stream
from bench.services import LayerOutputs
from datamodules.base import Loaded


@dataclass(frozen=True)
class Parts:
    loop: FederatedLoop
    evaluate: Figures  # test figures of what is deployed now
    data: dict[str, Any]  # facts for the record
    model: dict[str, Any]
    module: nn.Module
    prerun: Prerun
    memory: budget.Need  # bytes, by what they are for
    config: Mapping[str, Any]  # to record: with the engine that was chosen, so that a resume takes the same one


def build(config: Mapping[str, Any], folder: Callable[[Mapping[str, Any]], Path] | None = None) -> Parts:
    """`folder` makes or names the run's own, should something large have to be kept there."""
    torch.set_num_threads(1)  # two threads in each of two processes make a step fifty times slower
    device, seed = _device(config["engine"]["device"]), config["seed"]
    loaded: Loaded = create(config["dataset"]).load()
    if config["val_fraction"]:
        loaded = loaded.with_validation(config["val_fraction"], stream(seed, "validation"))
    partition = create(config["partition"])
    clients = partition.split(loaded.train.y.numpy(), config["clients"], stream(seed, "partition"))
    memory = budget.check(config, loaded, [len(client) for client in clients], device)

    def inputs(x: Tensor) -> Tensor:
        return loaded.inputs(x, config["normalise"], dtype)

    net = models.build(config["model"], loaded.shape, loaded.classes, stream(seed, "init"))
    from bench.module import local_module  # Lightning takes seven seconds: only once little is left to refuse

    module = local_module(config["model"], net).to(device)
    layout = Layout(module)
    dtype = layout.flatten(trainable(module)).dtype
    batches = Batches(
        loaded.train.x.to(device),
        loaded.train.y.to(device),
        clients,
        inputs,
        loaded.augment if loaded.augments else None,
        batch_size=config["batch_size"],
        classes=loaded.classes,
        seed=seed,
        local_unit=config["local_unit"],
    )
    facts = {"name": config["model"]["name"], "parameters": layout.size}
    if config["model"]["name"] == "custom":
        some = batches.load(torch.arange(min(max(2, config["batch_size"]), len(loaded.train)), device=device))
        facts |= {"name": config["model"]["target"], "loss": try_out(module, some, loaded.classes)}
    engine, why = choose.engine(config["engine"]["name"], module, layout, batches, _work(config, batches))
    why = config.get("engine_why") or why
    config = {**config, "engine": {**config["engine"], "name": engine.name}, "engine_why": why}
    w0 = layout.flatten(trainable(module))
    prerun = Prerun(lambda recorder: make(recorder), partial(folder, config) if folder else None)
    fed = Fed(
        clients=config["clients"],
        cohort=config["cohort"],
        rounds=config["rounds"],
        epochs=config["epochs"],
        lr=config["lr"],
        momentum=config["momentum"],
        decay=config["weight_decay"],
        samples=w0.new_tensor([len(c) for c in clients]),
        layout=layout,
        trace=prerun,
        layer_outputs=LayerOutputs(module, layout, loaded, inputs),
        fit_head=HeadFit(module, layout),
    )
    devices = Devices(config["clients"], seed, config["sampling"], Population(**config["devices"]))

    def make(algo: Algorithm) -> FederatedLoop:
        return FederatedLoop(algo, fed, engine, devices, rules(config, algo, fed), w0)

    try:
        loop = make(create(config["algo"]))
    except UserError:
        raise
    except ValueError as error:  # a method that cannot work with this model
        raise UserError(f"{error}.") from None
    x, y = _test(loaded, config["test_samples"])
    evaluate = Evaluate(module, layout, x.to(device), y.to(device), inputs)
    return Parts(
        loop=loop,
        evaluate=Figures(loop, evaluate, stream(seed, "watched")),
        data={
            "name": config["dataset"]["name"],
            "source": loaded.source,
            "train": len(loaded.train),
            "test": len(y),
            "classes": loaded.classes,
            "clients": len(clients),
            "samples_per_client": [min(map(len, clients)), max(map(len, clients))],
            "deviation": " ".join(filter(None, (loaded.deviation, partition.remark(clients)))) or None,
        },
        model=facts,
        module=module,
        prerun=prerun,
        memory=memory,
        config=config,
    )


def _work(config: Mapping[str, Any], batches: Batches) -> choose.Work:
    each = sum(batches.steps_per_epoch(client) for client in range(config["clients"])) / config["clients"]
    steps = round(each * config["rounds"] * config["epochs"] * config["cohort"])
    return choose.Work(together=max(config["concurrency"] or 0, config["cohort"]), steps=steps)


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("engine.device=cuda needs a GPU that torch can use; engine.device=cpu runs without one.")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else "cpu")


def _test(loaded: Loaded, samples: int | None) -> tuple[Tensor, Tensor]:
    """The test set, or a fixed random part of it, the same in every run."""
    if samples is None or samples >= len(loaded.test):
        return loaded.test.x, loaded.test.y
    index = torch.from_numpy(stream(0, "test_samples").permutation(len(loaded.test))[:samples])
    return loaded.test.x[index], loaded.test.y[index]

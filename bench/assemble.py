"""From a resolved config to everything a run needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from algorithms.base import Algorithm, Fed
from bench import models
from bench.batches import Batches
from bench.clock import Devices
from bench.engine.eager import Eager
from bench.errors import UserError
from bench.evaluate import Evaluate
from bench.flat import Layout, trainable
from bench.loop import FederatedLoop
from bench.registry import create
from bench.schedule import rules
from bench.seeding import stream
from bench.services import LayerOutputs, Prerun
from datamodules.base import Loaded


@dataclass(frozen=True)
class Parts:
    loop: FederatedLoop
    evaluate: Callable[[], tuple[float, float]]  # test loss and accuracy of what is deployed now
    data: dict[str, Any]  # facts for the record
    model: dict[str, Any]
    module: nn.Module


def build(config: Mapping[str, Any]) -> Parts:
    torch.set_num_threads(1)  # two threads in each of two processes make a step fifty times slower
    device, seed = _device(config["engine"]["device"]), config["seed"]
    loaded: Loaded = create(config["dataset"]).load()
    clients = create(config["partition"]).split(loaded.train.y.numpy(), config["clients"], stream(seed, "partition"))

    def inputs(x: Tensor) -> Tensor:
        return loaded.inputs(x, config["normalise"])

    from bench.module import LocalModule  # Lightning takes seven seconds: only once nothing is left to refuse

    net = models.build(config["model"], loaded.shape, loaded.classes, stream(seed, "init"))
    module = LocalModule(net).to(device)
    layout = Layout(module)
    batches = Batches(
        loaded.train.x.to(device),
        loaded.train.y.to(device),
        clients,
        inputs,
        batch_size=config["batch_size"],
        classes=loaded.classes,
        seed=seed,
        local_unit=config["local_unit"],
    )
    engine = Eager(module, layout, batches)
    w0 = layout.flatten(trainable(module))
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
        trace=Prerun(lambda recorder: make(recorder)),
        layer_outputs=LayerOutputs(module, layout, loaded, inputs),
        fit_head=engine.fit_head,
    )
    known = {k: v for k, v in config["devices"].items() if k != "name"}
    devices = Devices(config["clients"], seed, config["sampling"], **known)

    def make(algo: Algorithm) -> FederatedLoop:
        return FederatedLoop(algo, fed, engine, devices, rules(config, algo, fed), w0)

    loop = make(create(config["algo"]))
    x, y = _test(loaded, config["test_samples"])
    evaluate = Evaluate(module, layout, x.to(device), y.to(device), inputs)
    return Parts(
        loop=loop,
        evaluate=lambda: evaluate(loop.deployed()),
        data={
            "name": config["dataset"]["name"],
            "source": loaded.source,
            "train": len(loaded.train),
            "test": len(y),
            "classes": loaded.classes,
            "clients": len(clients),
            "samples_per_client": [min(map(len, clients)), max(map(len, clients))],
        },
        model={"name": config["model"]["name"], "parameters": layout.size},
        module=module,
    )


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

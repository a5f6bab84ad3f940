"""How fast local training is: each way of running the same work, interleaved in one process, against a plain loop."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from algorithms.base import Algorithm, Fed, LocalRule, Schedule
from bench import models
from bench.batches import Batch, Batches
from bench.clock import Devices
from bench.engine.eager import Eager
from bench.errors import Parser
from bench.flat import Layout, trainable
from bench.loop import FederatedLoop
from bench.schedule import Rules
from bench.seeding import stream


@dataclass(frozen=True)
class Workload:
    """Generated tensors of the right shape: `clients` devices that each take `steps` local steps a round."""

    shape: tuple[int, ...]
    classes: int
    hidden: tuple[int, ...]
    batch_size: int
    clients: int
    steps: int


WORKLOADS = {
    "fmnist_mlp": Workload((1, 28, 28), 10, (400,), 10, 10, 120),
    "mnist_linear": Workload((1, 28, 28), 10, (), 32, 100, 57),
}
LR = 0.01


class Classifier(nn.Module):
    """What LocalModule is, without Lightning's seven seconds of import."""

    classifier = True

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1], reduction="none")


class Data:
    def __init__(self, load: Workload) -> None:
        per_client = load.batch_size * load.steps
        rng = np.random.default_rng(0)
        self.x = torch.from_numpy(rng.integers(0, 256, (load.clients * per_client, *load.shape), dtype=np.uint8))
        self.y = torch.from_numpy(rng.integers(0, load.classes, load.clients * per_client))
        self.clients = np.split(np.arange(load.clients * per_client), load.clients)

    @staticmethod
    def inputs(x: Tensor) -> Tensor:
        return x.float() * (1 / 255)


def _net(load: Workload) -> nn.Module:
    return models.build(
        {"name": "mlp", "hidden": load.hidden, "width": 1.0}, load.shape, load.classes, stream(0, "init")
    )


def plain(load: Workload, data: Data) -> Callable[[], None]:
    """The loop everyone writes first: a module, torch's SGD, the state dicts averaged."""
    net = _net(load)
    pools = [(data.x[index], data.y[index]) for index in data.clients]

    def round_() -> None:
        start = [p.detach().clone() for p in net.parameters()]
        total = [torch.zeros_like(p) for p in start]
        for x, y in pools:
            with torch.no_grad():
                for p, value in zip(net.parameters(), start, strict=True):
                    p.copy_(value)
            optimiser = torch.optim.SGD(net.parameters(), lr=LR)
            for index in torch.split(torch.randperm(len(y)), load.batch_size):
                optimiser.zero_grad()
                nn.functional.cross_entropy(net(data.inputs(x[index])), y[index]).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
            for t, p in zip(total, net.parameters(), strict=True):
                t += p.detach() / len(pools)
        with torch.no_grad():
            for p, t in zip(net.parameters(), total, strict=True):
                p.copy_(t)

    return round_


@dataclass(frozen=True, kw_only=True)
class _Drift(Algorithm):
    """FedAvg with a constant drift vector: what SCAFFOLD's local step costs."""

    def local(self, jobs: object, w: Tensor, epoch: int, fed: Fed) -> LocalRule:
        return LocalRule(drift=torch.full_like(w, 1e-6))


def eager(load: Workload, data: Data, algo: Algorithm) -> Callable[[], None]:
    module = Classifier(_net(load))
    layout = Layout(module)
    batches = Batches(
        data.x, data.y, data.clients, data.inputs, batch_size=load.batch_size, classes=load.classes, seed=0
    )
    w0 = layout.flatten(trainable(module))
    fed = Fed(
        clients=load.clients,
        cohort=load.clients,
        rounds=10**6,
        epochs=1,
        lr=LR,
        momentum=0.0,
        decay=0.0,
        samples=w0.new_full((load.clients,), float(load.batch_size * load.steps)),
        layout=layout,
    )
    rules = Rules(Schedule(load.clients, load.clients), rounds=10**6)
    loop = FederatedLoop(algo, fed, Eager(module, layout, batches), Devices(load.clients, 0), rules, w0)
    return lambda: (loop.advance(), None)[1]


def measure(load: Workload, repetitions: int) -> dict[str, dict[str, float]]:
    torch.set_num_threads(1)
    data = Data(load)
    variants = {
        "plain": plain(load, data),
        "eager": eager(load, data, Algorithm()),
        "eager+drift": eager(load, data, _Drift()),
    }
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for run in variants.values():
        run()
    for _ in range(repetitions):
        for name, run in variants.items():
            begin = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begin)
    return {
        name: {
            "seconds_per_round": statistics.median(values),
            "client_steps_per_second": load.clients * load.steps / statistics.median(values),
        }
        for name, values in seconds.items()
    }


def main(argv: Sequence[str]) -> int:
    parser = Parser("python -m bench speed", description=__doc__)
    parser.add_argument("--workloads", default=",".join(WORKLOADS), help="comma-separated: %(default)s")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args(argv)
    names = options.workloads.split(",")
    for name in names:
        if name not in WORKLOADS:
            parser.error(f"unknown workload {name}; choose from {', '.join(WORKLOADS)}")
    results = {}
    for name in names:
        results[name] = measure(WORKLOADS[name], options.repetitions)
        base = results[name]["plain"]["seconds_per_round"]
        for variant, figures in results[name].items():
            value = figures["seconds_per_round"]
            print(f"{name:14} {variant:12} {1000 * value:8.1f} ms a round   {base / value:5.2f} x plain", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0

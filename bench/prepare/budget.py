"""What a run will need of memory and disk, worked out from shapes alone before anything large is made."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from algorithms.base import Algorithm, Fed, State
from algorithms.views import Trace
from bench import models
from bench.errors import UserError, first_line
from bench.learning.flat import Layout
from bench.prepare import count
from bench.prepare.registry import create, transforms
from bench.prepare.resources import available, free_disk
from bench.seeding import stream
from bench.simulation.contract import checked
from bench.simulation.schedule import constants, rules
from datamodules.base import Loaded

GB = 1e9
PROGRAM = 0.3 * GB  # what Lightning, the network's activations and the allocator take beside what is counted here
GRADIENTS = {"last_gradient", "mean_gradient", "full_gradient"}
WORKER = 0.05 * GB  # what a worker process does not share; jobs on their way to workers come on top
Need = dict[str, float]


@dataclass(frozen=True)
class Sizes:
    """Bytes of what there is one of."""

    model: int
    server: int
    broadcast: int  # the part of the server's state that every version in flight keeps
    client: int  # one device's memory
    upload: int  # what waits for the aggregation: update, extra numbers, new memory
    prerun: int  # the traces of a run ahead of this one, for a method that asks for them


def check(config: Mapping[str, Any], loaded: Loaded, samples: Sequence[int], device: torch.device) -> Need:
    """Refuses a run that would not fit; `samples` of each device. Returns the memory it will need."""
    memory, disk = estimate(config, loaded, samples, device)
    _compare("memory", memory, available(device) + memory["the data"], _advice(memory))
    where = f"a smaller model, fewer clients or another folder than {config['out']} (key out)"
    _compare("disk space", disk, free_disk(Path(config["out"])), where)
    return memory


class _Unfilled(TorchFunctionMode):
    """Fills no tensor of the device meta, which has no numbers: torch would first import its compiler, for a second."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0] if func in (Tensor.uniform_, Tensor.normal_) else func(*args, **(kwargs or {}))


def outline(config: Mapping[str, Any], loaded: Loaded) -> nn.Module:
    """The network without its numbers; a user's own is built, since it may not work without them."""
    node = config["model"]
    try:
        if node["name"] == "custom":
            return models.build(node, loaded.shape, loaded.classes, stream(config["seed"], "init"))
        with torch.device("meta"), _Unfilled():
            net = models.build(node, loaded.shape, loaded.classes, stream(config["seed"], "init"))
            if any(isinstance(layer, nn.Conv2d) for layer in net.modules()):  # linear layers fit what they are made for
                net(torch.zeros(2, *loaded.shape))
            return net
    except (OverflowError, RuntimeError, TypeError) as error:  # beyond 64 bits, or for inputs of another kind
        if node["name"] == "custom":
            raise
        text = first_line(error)
        shape = "x".join(map(str, loaded.shape))
        raise UserError(f"model={node['name']} cannot be made for inputs of {shape} numbers: {text}.") from None


def estimate(
    config: Mapping[str, Any], loaded: Loaded, samples: Sequence[int], device: torch.device
) -> tuple[Need, dict[str, float]]:
    """Bytes of memory and of disk, by what they are for: the most that the engine, loop and record hold at once."""
    algo = checked(create(config["algo"]))
    layout = Layout(outline(config, loaded).to("meta"))
    fed = Fed(**constants(config), samples=torch.empty(len(samples), device="meta"), layout=layout)
    size, plan = _sizes(algo, fed), rules(config, algo, fed)
    sync, places = plan.schedule.sync, plan.schedule.concurrency
    local = config["engine"]["address"] == "local"
    workers = count.workers(config, layout.size, samples, plan, device) if local else 1
    batch = min(places, plan.jobs_per_call(layout.size, workers))
    waiting = places if sync else min(places, 2 * batch)  # trained, not yet aggregated
    uploads = plan.rounds * (plan.arrivals_per_round or plan.schedule.buffer)
    remembered = min(fed.clients, uploads)
    versions = 1 if sync else min(places, uploads)

    rows = (
        2 + (fed.momentum > 0) + 2 * (fed.optimizer is not None) + len(algo.requires & GRADIENTS)
    )  # the models, their updates, ...
    training = batch * (rows * size.model + 2 * size.client + (0 if sync else size.broadcast))
    aggregation = plan.schedule.buffer * (2 * size.model + size.upload)
    of_uploads = sum(len(one.remembers) for one in transforms(config["upload"])) * (1 + len(algo.vectors(fed)))
    client = size.client + of_uploads * size.model
    cached = config["aggregation"] == "cached"
    epoch = _epoch_bytes(config, max(samples))
    kept = size.server + remembered * client + versions * size.broadcast
    memory = {
        "the model": 4.0 * size.model + 2 * size.server,
        "the data": float(_data_bytes(loaded)),
        f"training {batch} at a time": float(training + _input_bytes(config, loaded, samples)),
        f"the order of samples in {fed.epochs} epochs": float(batch * epoch),
        f"{waiting} trained models": float(max(waiting * size.upload, aggregation)),
        f"the memory of {remembered} devices": float(remembered * client),
        f"{versions} versions in flight": float(versions * size.broadcast),
        "every device's last model": 3.0 * fed.clients * size.model * cached,
        "the mean trace": 2.0 * (2 * fed.epochs + 1) * size.model * ("trace" in algo.requires),
        "the program": PROGRAM,
        f"{workers} workers": (workers - 1) * WORKER + training * (workers > 1),
    }
    between_rounds = 0 if sync else plan.schedule.buffer - 1  # uploads that still wait when a checkpoint is written
    kept += between_rounds * size.upload + fed.clients * size.model * cached
    checkpoints = 2.0 * kept  # the old one stays until the new one is complete
    metrics = 300.0 * min(plan.rounds, 10**6)
    return memory, {"checkpoints": checkpoints, "metrics": metrics, "traces of the pre-run": float(size.prerun)}


def _compare(what: str, need: Need, there: float, advice: str) -> None:
    total = sum(need.values())
    if total > there:
        parts = sorted(((n, text) for text, n in need.items() if n >= 0.05 * total), reverse=True)
        listed = ", ".join(f"{text} {size_text(n)}" for n, text in parts)
        raise UserError(
            f"This run would need about {size_text(total)} of {what} ({listed}), but {size_text(there)} are there: "
            f"{advice} helps."
        )


def _advice(need: Need) -> str:
    """What lowers the largest part."""
    largest = max(need, key=lambda text: need[text])
    ways = {
        "the data": "a smaller data set",
        "training": "a smaller engine.batch, batch_size or model",
        "the order": "fewer epochs, a larger batch_size or a smaller engine.batch",
        "the memory": "fewer clients, a smaller model, or a method without memory on the devices",
        "every": "aggregation=arrived, fewer clients or a smaller model",
        "the mean": "fewer epochs or a smaller model",
    }
    by_count = "a smaller model, or fewer devices at a time (keys cohort, concurrency, buffer)"
    return next((way for text, way in ways.items() if largest.startswith(text)), by_count)


def size_text(size: float) -> str:
    unit, name = next(((u, n) for u, n in ((GB, "GB"), (1e6, "MB")) if size >= 0.05 * u), (1e3, "kB"))
    return f"{size / unit:,.1f} {name}"


def _sizes(algo: Algorithm, fed: Fed) -> Sizes:
    w, asked = torch.empty(fed.layout.size, device="meta"), set[int]()

    def trace(version: int) -> Trace:
        asked.add(version)
        return Trace(w.expand(fed.epochs + 1, -1), w.expand(fed.epochs, -1), w.new_empty(fed.epochs + 1))

    server = _shapes(lambda: algo.init_server(w, replace(fed, trace=trace)), {"w": w})
    mine = _shapes(lambda: algo.init_client(w, fed), {})
    client = _total(mine) + (w.nbytes if algo.personal != "none" or algo.keeps_unsent else 0)
    broadcast = _total({name: server[name] for name in algo.broadcast if name in server})
    extra = algo.extra_up(fed) * w.element_size()
    mail = w.nbytes if algo.mail else 0
    prerun = fed.rounds * (2 * fed.epochs + 1) * w.nbytes if asked else 0
    return Sizes(w.nbytes, _total(server), broadcast, client, w.nbytes + extra + client + mail, prerun)


def _shapes(make: Callable[[], State], otherwise: State) -> State:
    """A state without its numbers; a method that looks at them, or asks the run for something, cannot be asked this
    way, and one that cannot work with this model says so when the loop is made."""
    try:
        return make()
    except (RuntimeError, TypeError, ValueError):
        return otherwise


def _total(state: Mapping[str, Tensor]) -> int:
    return sum(value.nbytes for value in state.values())


def _epoch_bytes(config: Mapping[str, Any], samples: int) -> int:
    """The sample numbers of all local epochs of one device, and a small tensor for each batch."""
    batches = math.ceil(samples / config["batch_size"])
    passes = config["epochs"] if config["local_unit"] == "epoch" else math.ceil(config["epochs"] / batches)
    return int(passes * (8 * samples + 500 * batches))


def _data_bytes(loaded: Loaded) -> int:
    """As stored and, where that is done beforehand, resized."""
    each = 4 * math.prod(loaded.shape) * loaded.shrinks
    return sum(split.x.nbytes + split.y.nbytes + each * len(split) for split in (loaded.train, loaded.test))


def _input_bytes(config: Mapping[str, Any], loaded: Loaded, samples: Sequence[int]) -> int:
    """One batch as floats, before and after it is normalised."""
    largest: int = min(config["batch_size"], max(samples))
    return 8 * math.prod(loaded.shape) * largest

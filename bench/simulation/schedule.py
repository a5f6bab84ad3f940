"""The method's own schedule, unless the keys of the run say otherwise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import nn

from algorithms.base import Adam, Algorithm, Fed, Schedule
from algorithms.uploads.base import Transform
from bench.errors import UserError
from bench.learning.flat import Layout
from bench.simulation.contract import checked


@dataclass(frozen=True)
class Rules:
    """What the run decides, whatever the method."""

    schedule: Schedule
    rounds: int
    weighting: str = "size"
    aggregation: str = "arrived"
    arrivals_per_round: int | None = None  # asynchronous schedules; None: the buffer
    virtual_seconds: float = math.inf
    on_divergence: str = "stop"
    batch: int | None = None  # most jobs trained in one engine call
    upload: tuple[Transform, ...] = ()  # what becomes of an upload on its way, in this order

    def jobs_per_call(self, size: int, parallel_parts: int) -> int:
        """How many jobs of `size` numbers are trained in one call; at a time, the engine computes `parallel_parts`."""
        return self.batch or max(1, min(2048, 2**25 // (size * parallel_parts))) * parallel_parts


def rules(config: Mapping[str, Any], algo: Algorithm, fed: Fed) -> Rules:
    """What the loop needs to know of the config; refuses schedules that cannot be."""
    algo = checked(algo)
    kinds = {None: algo.schedule(fed), "sync": Schedule(fed.cohort, fed.cohort), "async": Schedule(fed.clients, 1)}
    own = kinds[config["schedule"]]
    concurrency, buffer = config["concurrency"] or own.concurrency, config["buffer"] or own.buffer
    name = config["algo"]["name"]
    if config["schedule"] == "sync" and config["refill"] == "at_once":
        raise UserError("refill=at_once is for asynchronous schedules: schedule=sync waits for all devices at work.")
    if config["schedule"] == "sync" and concurrency != buffer:
        raise UserError(
            f"schedule=sync waits for all devices at work, but here concurrency={concurrency} and buffer={buffer}: "
            f"give neither (then both are the cohort) or the same for both."
        )
    chosen = Schedule(concurrency, buffer, own.refill if config["refill"] is None else config["refill"])
    numbers = (concurrency, fed.clients) if chosen.at_once else (buffer, concurrency, fed.clients)
    if sorted(numbers) != list(numbers):
        names = ("buffer", "concurrency", "clients")[-len(numbers) :]
        raise UserError(
            f"{' <= '.join(names)} has to hold, not {' <= '.join(map(str, numbers))}"
            f"{_asked_by(name, algo.method, own, {concurrency, buffer})}."
        )
    if not chosen.sync and "trace" in algo.requires:
        raise UserError(f"{name} averages over the devices of a round and needs a synchronous schedule.")
    if chosen.sync and config["devices"]["max_wait"] is not None:
        raise UserError("devices.max_wait is for asynchronous schedules: a synchronous round waits for its cohort.")
    if config["on_divergence"] == "drop" and "trace" in algo.requires:
        raise UserError(f"on_divergence=drop is not possible with {name}, which averages over all devices of a round.")
    if config["aggregation"] == "cached" and not algo.cacheable:
        raise UserError(f"aggregation=cached is not possible with {name}, which uses more than the devices' models.")
    if config["aggregation"] == "arrived" and algo.dates_on_arrival:
        raise UserError(f"{name} is to date models by their arrival, which only aggregation=cached can tell apart.")
    if algo.chooses_on_arrival and not chosen.sync and config["devices"]["up"] is not None:
        raise UserError(
            f"devices.up has to be null where {name} goes by the round of the arrival, which would depend on it."
        )
    return Rules(
        chosen,
        rounds=config["rounds"],
        weighting=config["weighting"],
        aggregation=config["aggregation"],
        arrivals_per_round=config["arrivals_per_round"] or (fed.clients if buffer == 1 else buffer),
        virtual_seconds=config["virtual_seconds"] or math.inf,
        on_divergence=config["on_divergence"],
        batch=config["engine"]["batch"],
    )


def with_decay(fed: Fed, factor: float, plan: Rules) -> Fed:
    """`factor` is from one reporting round to the next, in which an asynchronous schedule makes several versions."""
    schedule = plan.schedule
    rounds = 1.0 if schedule.sync else schedule.buffer / (plan.arrivals_per_round or schedule.buffer)
    return replace(fed, lr_decay=factor**rounds)


def _asked_by(name: str, method: Algorithm, own: Schedule, numbers: set[int]) -> str:
    """Where numbers that do not fit come from, if it is the method."""
    if not numbers & {own.concurrency, own.buffer}:
        return ": a smaller buffer, or refill=at_once, would do"
    given = [f"algo.{f.name}={getattr(method, f.name)}" for f in fields(method) if getattr(method, f.name) in numbers]
    of = f"with {' and '.join(given)}; a smaller one, or more clients," if given else "; more clients"
    return f": {name} asks for that{' ' if given else ''}{of} would do"


def check(config: Mapping[str, Any], algo: Algorithm) -> Rules:
    """The same rules and refusals before there are data or a model: a schedule depends on neither."""
    config = as_trained(config, algo)
    samples = torch.ones(config["clients"])
    return rules(config, algo, Fed(**constants(config), samples=samples, layout=Layout(nn.Linear(1, 1))))


def as_trained(config: Mapping[str, Any], algo: Algorithm) -> Mapping[str, Any]:
    """With a single device if the method pools what the devices have."""
    return {**config, "clients": 1, "cohort": 1, "concurrency": None, "buffer": None} if algo.pooled else config


def constants(config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of Fed that are keys of the run."""
    names = ("clients", "cohort", "rounds", "epochs", "lr", "momentum")
    own = {key: value for key, value in config["optimizer"].items() if key != "name"}
    name = config["optimizer"]["name"]
    adam = None if name == "sgd" else Adam(**own, decoupled=name == "adamw")
    terms = {"decay": config["weight_decay"], "optimizer": adam, "clip": config["clip_norm"]}
    return {name: config[name] for name in names} | terms

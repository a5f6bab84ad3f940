"""Which keys of a config make no difference: given on the command line they are a mistake, unless another run of the
same command uses them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from algorithms.base import Algorithm
from bench.prepare import registry
from bench.simulation import schedule


def unused(config: Mapping[str, Any]) -> dict[str, str]:
    """These keys, each with what would have to be for it to count."""
    devices, algo = config["devices"], registry.create(config["algo"])
    found = {f"algo.{name}": need for name, need in _of_fields(algo)}
    plan = schedule.check(config, algo).schedule
    if plan.sync:
        found["refill"] = "an asynchronous schedule; a synchronous round fills all places anew"
    elif plan.buffer == 1:
        found["refill"] = "a buffer of more than one upload; after each aggregation the place is filled anyhow"
    if plan.sync:
        found["arrivals_per_round"] = "an asynchronous schedule; a synchronous round is one aggregation"
    if not devices["rho"]:
        found |= dict.fromkeys(("devices.tau_max", "devices.straggler"), "stragglers: add devices.rho=0.5, say")
    elif devices["straggler"] == "epochs":
        found["devices.tau_max"] = "devices.straggler=tau"
    if devices["seconds"] is not None:
        by_steps = ("seconds_per_step", "spread", "kinds")
        found |= {f"devices.{key}": "devices.seconds=null, which counts a job's steps" for key in by_steps}
    elif devices["kinds"] is not None:
        found["devices.spread"] = "devices.kinds=null"
    if reason := _without_peers(algo, devices):
        found["devices.peer"] = reason
    if config["logger"]["mode"] == "disabled":
        found["logger.project"] = "logger=wandb"
    return found


def _of_fields(algo: Algorithm) -> Iterator[tuple[str, str]]:
    """Fields whose metadata say with which values of another they count: {"only": {"staleness": ("hinge",)}}."""
    for f in fields(algo):
        for other, values in f.metadata.get("only", {}).items():
            if getattr(algo, other) not in values:
                yield f.name, " or ".join(f"algo.{other}={value}" for value in values)


def _without_peers(algo: Algorithm, devices: Mapping[str, Any]) -> str | None:
    if algo.mail is None:
        return "a method whose devices send each other something"
    return "devices.up, of which it is a multiple" if devices["up"] is None else None

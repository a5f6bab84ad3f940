"""Is a configuration one that can be run? Every refusal is one sentence with the key, the value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from hydra.core.override_parser.types import Override

from bench import registry, schedule
from bench.config import GROUPS, Keys
from bench.errors import UserError, unknown
from bench.resolve import choices, fields_of, names_of

Test = Callable[[Any], bool]


def _number(text: str, test: Test) -> tuple[str, Test]:
    return text, lambda value: math.isfinite(value) and test(value)


def _choice(*allowed: str) -> tuple[str, Test]:
    return " | ".join(allowed), lambda value: value in allowed


COUNT = _number("at least 1", lambda v: v >= 1)
POSITIVE = _number("a finite number above 0", lambda v: v > 0)
NOT_NEGATIVE = _number("a finite number, 0 or more", lambda v: v >= 0)
RULES: dict[str, tuple[str, Test]] = {
    **dict.fromkeys(("rounds", "clients", "cohort", "concurrency", "buffer", "epochs", "batch_size"), COUNT),
    **dict.fromkeys(("eval_every", "arrivals_per_round", "test_samples", "devices.tau_max", "engine.batch"), COUNT),
    **dict.fromkeys(("partition.per_client", "partition.min_size"), COUNT),
    **dict.fromkeys(("lr", "virtual_seconds", "model.width", "partition.alpha"), POSITIVE),
    **dict.fromkeys(("devices.seconds_per_step", "devices.up", "devices.down"), POSITIVE),
    **dict.fromkeys(("weight_decay", "checkpoint_seconds", "seed"), NOT_NEGATIVE),
    "momentum": _number("at least 0 and below 1", lambda v: 0 <= v < 1),
    "target": _number("between 0 and 1, both excluded", lambda v: 0 < v < 1),
    "devices.rho": _number("between 0 and 1", lambda v: 0 <= v <= 1),
    "devices.spread": _number("at least 1", lambda v: v >= 1),
    "partition.imbalance": _number("at least 1", lambda v: v >= 1),
    "model.hidden": ("a list of numbers of at least 1", lambda v: all(units >= 1 for units in v)),
    "local_unit": _choice("epoch", "step"),
    "weighting": _choice("size", "uniform"),
    "sampling": _choice("with_replacement", "without_replacement"),
    "aggregation": _choice("arrived", "cached"),
    "schedule": _choice("sync", "async"),
    "on_divergence": _choice("stop", "drop"),
    "scale": _choice("auto", "paper", "cpu", "smoke"),
    "devices.straggler": _choice("tau", "epochs"),
    "engine.device": _choice("auto", "cpu", "cuda"),
    "logger.mode": _choice("offline", "online", "disabled"),
}
NOT_ABOVE = (("cohort", "clients"), ("buffer", "concurrency"), ("buffer", "clients"), ("concurrency", "clients"))


def names(overrides: Iterable[Override]) -> None:
    """Refuses what Hydra would not know, with the nearest names that exist."""
    mine = [o for o in overrides if not o.is_hydra_override()]
    chosen = {o.key_or_group: str(o.value()) for o in mine if o.key_or_group in GROUPS}
    for group, option in chosen.items():
        known = [*names_of(group), *(["auto"] if choices()[group] == "auto" else [])]
        if option not in known:
            raise unknown(GROUPS[group], option, known)
    for override in mine:
        key = override.key_or_group
        group, _, name = key.partition(".")
        if group in GROUPS and name:
            _field(group, name, chosen.get(group, choices()[group]))
        elif group not in GROUPS and key not in (f.name for f in fields(Keys)):
            known = [*GROUPS, *(f.name for f in fields(Keys))]
            raise unknown("key", key, known, "python bench.py --help lists them all")
        if override.is_add() or override.is_force_add() or override.is_delete():
            raise UserError(f"'{override.input_line}' is not key=value: the key exists already, so write {key}=...")


def _field(group: str, name: str, option: str) -> None:
    have = fields_of(group, option)
    if not have:
        raise UserError(f"{group}={option} has no fields, so {group}.{name} cannot be set.")
    if name not in have:
        raise unknown(f"field of {group}={option}", name, have)


def config(config: Mapping[str, Any]) -> None:
    """Refuses values that no run can use."""
    for key, (allowed, test) in RULES.items():
        value = _at(config, key)
        if value is not None and not test(value):
            raise UserError(f"{key}={value} is not possible: it must be {allowed}.")
    for low, high in NOT_ABOVE:
        a, b = config[low], config[high]
        if a is not None and b is not None and a > b:
            raise UserError(f"{low}={a} is more than {high}={b}: give at most {low}={b}, or a larger {high}.")
    tau_max, epochs = config["devices"]["tau_max"], config["epochs"]
    if tau_max is not None and tau_max > epochs:
        raise UserError(f"devices.tau_max={tau_max} is more than epochs={epochs}: a device trains at least one.")
    made = {}
    for group in registry.BASES:
        for key, value in config[group].items():
            if isinstance(value, float) and not math.isfinite(value):
                raise UserError(f"{group}.{key}={value} is not possible: it must be a finite number.")
        try:
            made[group] = registry.create(config[group])
        except (TypeError, ValueError) as error:
            raise UserError(f"{str(error).rstrip('.')}.") from None
    schedule.check(config, made["algo"])


def _at(config: Mapping[str, Any], key: str) -> Any:
    group, _, name = key.rpartition(".")
    return config[group].get(name) if group else config.get(name)

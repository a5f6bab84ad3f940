"""Is a configuration one that can be run? Every refusal is one sentence with the key, the value and what is allowed."""

from __future__ import annotations

import errno
import math
import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from hydra.core.override_parser.types import Override
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bench.errors import UserError, unknown
from bench.prepare import registry
from bench.prepare.config import GROUPS, SCHEMAS, Keys
from bench.prepare.resolve import choices, fields_of, names_of, typed
from bench.record import EXTRA, Run, read
from bench.simulation import schedule

Test = Callable[[Any], bool]


def _number(text: str, test: Test) -> tuple[str, Test]:
    return text, lambda value: math.isfinite(value) and test(value)


def _choice(*allowed: str) -> tuple[str, Test]:
    return " | ".join(allowed), lambda value: value in allowed


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0


COUNT = _number("at least 1 and below 2^63", lambda v: 1 <= v < 2**63)
POSITIVE = _number("a finite number above 0", lambda v: v > 0)
NOT_NEGATIVE = _number("a finite number, 0 or more", lambda v: v >= 0)
NUMBERS = (
    "a number above 0, or a list of such numbers",
    lambda v: all(map(_positive, v if isinstance(v, list) else [v])) and v != [],
)
RANGE = ("[lo, hi] with 0 < lo <= hi", lambda v: len(v) == 2 and all(map(_positive, v)) and v[0] <= v[1])
RULES: dict[str, tuple[str, Test]] = {
    **dict.fromkeys(("rounds", "clients", "cohort", "concurrency", "buffer", "epochs", "batch_size"), COUNT),
    **dict.fromkeys(("eval_every", "arrivals_per_round", "test_samples", "devices.tau_max"), COUNT),
    **dict.fromkeys(("partition.per_client", "partition.min_size", "engine.batch", "engine.workers"), COUNT),
    **dict.fromkeys(("lr", "virtual_seconds", "model.width", "partition.alpha"), POSITIVE),
    **dict.fromkeys(("devices.seconds_per_step", "devices.max_wait"), POSITIVE),
    **dict.fromkeys(("devices.up", "devices.down", "devices.kinds"), NUMBERS),
    **dict.fromkeys(("devices.seconds", "devices.peer"), RANGE),
    "devices.loss": _number("at least 0 and below 1", lambda v: 0 <= v < 1),
    "model.dropout": _number("at least 0 and below 1", lambda v: 0 <= v < 1),
    **dict.fromkeys(("weight_decay", "checkpoint_seconds", "seed"), NOT_NEGATIVE),
    "momentum": _number("at least 0 and below 1", lambda v: 0 <= v < 1),
    "val_fraction": _number("between 0 and 1, both excluded", lambda v: 0 < v < 1),
    "target": _number("between 0 and 1, both excluded", lambda v: 0 < v < 1),
    "devices.rho": _number("between 0 and 1", lambda v: 0 <= v <= 1),
    "devices.spread": _number("at least 1", lambda v: v >= 1),
    "partition.imbalance": _number("at least 1", lambda v: v >= 1),
    **dict.fromkeys(
        ("model.hidden", "model.channels"), ("a list of numbers of at least 1", lambda v: all(n >= 1 for n in v))
    ),
    "local_unit": _choice("epoch", "step"),
    "weighting": _choice("size", "uniform"),
    "sampling": _choice("with_replacement", "without_replacement"),
    "aggregation": _choice("arrived", "cached"),
    "schedule": _choice("sync", "async"),
    "on_divergence": _choice("stop", "drop"),
    "scale": _choice("auto", "paper", "cpu", "smoke"),
    "devices.straggler": _choice("tau", "epochs"),
    "engine.address": (
        "local | auto | ray://host:port",
        lambda v: v in ("local", "auto") or re.fullmatch(r"ray://[^/:\s]+:[0-9]{1,5}", v) is not None,
    ),
    "engine.device": _choice("auto", "cpu", "cuda"),
    "logger.mode": _choice("offline", "online", "disabled"),
}
BOUNDS: dict[str, tuple[str, Callable[[float, float], bool]]] = {  # of a dataclass field, in its metadata
    "min": ("at least", operator.ge),
    "above": ("above", operator.gt),
    "max": ("at most", operator.le),
    "below": ("below", operator.lt),
}
NOT_ABOVE = (("cohort", "clients"), ("buffer", "concurrency"), ("buffer", "clients"), ("concurrency", "clients"))


def names(overrides: Iterable[Override]) -> None:
    """Refuses what Hydra would not know, with the nearest names that exist."""
    mine = [o for o in overrides if not o.is_hydra_override()]
    chosen = {o.key_or_group: str(o.value()) for o in mine if o.key_or_group in GROUPS}
    resumed = next((Path(str(o.value())) for o in mine if o.key_or_group == "resume"), None)
    for group, option in chosen.items():
        known = list(dict.fromkeys([*names_of(group), *(["auto"] if choices()[group] == "auto" else [])]))
        if option not in known:
            raise unknown(GROUPS[group], option, known)
    for override in mine:
        key = override.key_or_group
        group, _, name = key.partition(".")
        if group in GROUPS and name:
            option = chosen.get(group, choices()[group])
            if resumed and name not in fields_of(group, option):
                kept = read(resumed).config[group]
                was = f"{key}={kept[name]}" if name in kept else f"{group}={kept['name']}"
                raise UserError(f"{resumed} was run with {was}: to resume, leave {key} out.")
            _field(group, name, option)
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
    made = {group: _made(group, config[group]) for group in registry.BASES}
    _fits(config, made["dataset"])
    schedule.check(config, made["algo"])


def writable(folder: Path, key: str = "out") -> None:
    """Refuses an output folder in which no run can be made, without making it."""
    place = folder.absolute()
    try:
        while not os.path.lexists(place):
            place = place.parent
        reason = None if place.is_dir() else errno.ENOTDIR
        if reason is None and not os.access(place, os.W_OK | os.X_OK):
            reason = errno.EROFS if os.statvfs(place).f_flag & os.ST_RDONLY else errno.EACCES
    except OSError as error:
        reason = error.errno
    if reason is not None:
        raise UserError(f"Cannot write to the output folder {folder} (key {key}): {os.strerror(reason)}.")


def resumable(run: Run) -> None:
    """Refuses to go on with a run that is over, still going, or not one of this version's."""
    if run.result is not None:
        raise UserError(f"{run.folder} is finished already; its result is in {run.folder / 'result.json'}.")
    if run.status == "running":
        raise UserError(f"{run.folder} is being written by another process: the run has not ended.")
    recorded(run)


def agrees(run: Run, given: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Refuses `keys` of a command line, with the values `given`, that contradict the run to be resumed."""
    for key in sorted(keys):
        if key in GROUPS:  # an option may stand for values of fields; those of a dataclass are only its defaults
            stated = {key: given[key]["name"]}
            if key not in registry.BASES:
                stated |= {f"{key}.{k}": v for k, v in given[key].items() if k != "name" and v is not None}
        else:
            stated = {key: _at(given, key)}
        for name, value in stated.items():
            kept = _at(run.config, name)
            kept = kept["name"] if isinstance(kept, dict) else kept
            if value not in (kept, "auto"):
                raise UserError(f"{run.folder} was run with {name}={kept}, not {value}: to resume, leave {key} out.")


def recorded(run: Run) -> None:
    """Refuses a config.yaml that another program or version wrote, or that was edited into something impossible."""
    path = run.folder / "config.yaml"
    keys = [f.name for f in fields(Keys) if f.name != "resume"]
    _same_names(str(path), [*GROUPS, *keys], run.config.keys() - EXTRA)
    for group in GROUPS.keys() - {"protocol"}:
        node = run.config[group]
        if not isinstance(node, dict) or not isinstance(node.get("name"), str):
            raise UserError(f"{path} is not of this version: {group} has no name in it.")
    for group in SCHEMAS:
        if (name := run.config[group]["name"]) in names_of(group):
            found = (f"{group}.{key}" for key in run.config[group] if key != "name")
            _same_names(str(path), [f"{group}.{key}" for key in fields_of(group, name)], found)
    try:
        OmegaConf.structured(Keys(**{key: run.config[key] for key in keys}))
        for group in SCHEMAS:
            typed(group, run.config[group])
        config(run.config)
    except (UserError, OmegaConfBaseException, KeyError) as error:
        text = str(error).partition("\n")[0].rstrip(".")
        raise UserError(f"{path} does not describe a run of this version: {text}.") from None


def _same_names(what: str, expected: Iterable[str], found: Iterable[str]) -> None:
    missing, extra = sorted({*expected} - {*found}), sorted({*found} - {*expected})
    if missing or extra:
        parts = [f"it lacks {', '.join(missing)}"] * bool(missing) + [f"it has {', '.join(extra)}"] * bool(extra)
        raise UserError(f"{what} was written by another version of fedbench: {' and '.join(parts)}.")


def _made(group: str, node: Mapping[str, Any]) -> Any:
    """The dataclass of a node whose numbers are finite and within the bounds that its fields declare."""
    try:
        made = registry.create(node)
    except (TypeError, ValueError) as error:
        raise UserError(f"{str(error).rstrip('.')}.") from None
    hints = get_type_hints(type(made))
    for f in fields(made):
        key, value, hint = f"{group}.{f.name}", getattr(made, f.name), hints[f.name]
        if hint in (int, float, bool, str) and not isinstance(value, (int, float) if hint is float else hint):
            raise UserError(f"{key}={value} is not possible: it must be of type {hint.__name__}.")
        if isinstance(value, int | float) and not isinstance(value, bool):
            _bounded(key, value, f.metadata)
    return made


def _bounded(key: str, value: float, metadata: Mapping[str, Any]) -> None:
    bounds = {name: metadata[name] for name in BOUNDS if name in metadata}
    if math.isfinite(value) and all(BOUNDS[name][1](value, bound) for name, bound in bounds.items()):
        return
    allowed = " and ".join(f"{BOUNDS[name][0]} {bound:g}" for name, bound in bounds.items()) or "a finite number"
    raise UserError(f"{key}={value} is not possible: it must be {allowed}.")


def _fits(config: Mapping[str, Any], dataset: Any) -> None:
    """What is known of a data set before it is loaded; partitions look closer when they deal it."""
    name, per_client = config["dataset"]["name"], config["partition"].get("per_client")
    if dataset.size and not getattr(dataset, "samples", None) and config["clients"] > dataset.size[0]:
        raise UserError(
            f"clients={config['clients']} is more than the {dataset.size[0]} training samples of {name}: "
            f"each device needs at least one."
        )
    by_class = config["partition"]["name"] == "classes"
    if by_class and dataset.classes and per_client is not None and per_client > dataset.classes:
        raise UserError(
            f"partition.per_client={per_client} is more than the {dataset.classes} classes of {name}: "
            f"use 1 to {dataset.classes}."
        )


def _at(config: Mapping[str, Any], key: str) -> Any:
    group, _, name = key.rpartition(".")
    return config[group].get(name) if group else config.get(name)

"""Is a configuration one that can be run? Every refusal is one sentence with the key, the value and what is allowed."""

from __future__ import annotations

import errno
import math
import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from hydra.core.override_parser.types import Override
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from algorithms.base import Algorithm
from bench import trust
from bench.errors import UserError, first_line, program, unknown
from bench.prepare import registry
from bench.prepare.config import DEFAULTS, GROUPS, KEYS, SCHEMAS, Keys
from bench.prepare.resolve import fields_of, names_of, typed
from bench.record import EXTRA, Run, read
from bench.simulation import schedule
from bench.tasks.base import Task
from datamodules.partition import Partition

BOUNDS: dict[str, tuple[str, Callable[[float, float], bool]]] = {  # of a field, in its metadata
    "min": ("at least", operator.ge),
    "above": ("above", operator.gt),
    "max": ("at most", operator.le),
    "below": ("below", operator.lt),
}
SHAPES: dict[str, tuple[str, Callable[[Any], bool]]] = {  # of a field that may hold several numbers, likewise
    "number": ("", lambda value: True),
    "list": ("a list of numbers, each ", lambda value: True),
    "some": ("a number or a list of numbers, each ", lambda value: value != []),
    "range": ("[lo, hi] with lo <= hi, each ", lambda value: len(value) == 2 and value[0] <= value[1]),
}
SMALLEST, LARGEST = 1e-15, 1e15  # in size, where a field says no more: squared they are still numbers to the model
NOT_ABOVE = (("cohort", "clients"), ("concurrency", "clients"))


def names(overrides: Sequence[Override]) -> None:
    """Refuses what Hydra would not know, with the nearest names that exist."""
    chosen = {o.key_or_group: str(o.value()) for o in overrides if o.key_or_group in GROUPS}
    resumed = next((Path(str(o.value())) for o in overrides if o.key_or_group == "resume"), None)
    for group, option in chosen.items():
        known = list(dict.fromkeys([*names_of(group), *(["auto"] if DEFAULTS[group] == "auto" else [])]))
        if group == "upload" and re.fullmatch(r"\[.*\]", option):
            row = "+".join(re.findall(r"\w+", option)) or "topk+quantise"
            raise UserError(f"upload={option} is not possible: a row of transforms is upload={row}.")
        if option not in known:
            raise unknown(GROUPS[group], option, known)
    for override in overrides:
        key = override.key_or_group
        group, _, name = key.partition(".")
        if group in GROUPS and name:
            option = chosen.get(group, DEFAULTS[group])
            if resumed and name not in fields_of(group, option):
                kept = read(resumed).config[group]
                was = f"{key}={kept[name]}" if name in kept else f"{group}={kept['name']}"
                raise UserError(f"{resumed} was run with {was}: to resume, leave {key} out.")
            if not (have := fields_of(group, option)):
                others = [o for o in names_of(group) if name in fields_of(group, o)]
                more = f"; add {group}={'|'.join(others)}" if others else ""
                raise UserError(f"{group}={option} has no fields, so {group}.{name} cannot be set{more}.")
            if name not in have:
                raise unknown(f"field of {group}={option}", name, have)
        elif group not in GROUPS and key not in KEYS:
            raise unknown("key", key, [*GROUPS, *KEYS], f"{program()} --help lists them all")
        if override.is_add() or override.is_force_add() or override.is_delete() or override.package is not None:
            raise UserError(f"'{override.input_line}' is not key=value: the key exists already, so write {key}=...")


def config(config: Mapping[str, Any]) -> None:
    """Refuses values that no run can use."""
    for f in fields(Keys):
        _possible(f.name, config.get(f.name), f.metadata)
    for group, schema in SCHEMAS.items():
        for f in fields(schema):
            _possible(f"{group}.{f.name}", config[group].get(f.name), f.metadata)
    for low, high in NOT_ABOVE:
        a, b = config[low], config[high]
        if a is not None and b is not None and a > b:
            raise UserError(f"{low}={a} is more than {high}={b}: give at most {low}={b}, or a larger {high}.")
    tau_max, epochs = config["devices"]["tau_max"], config["epochs"]
    if tau_max is not None and tau_max > epochs:
        raise UserError(f"devices.tau_max={tau_max} is more than epochs={epochs}: a device trains at least one.")
    made = {group: [_made(group, part) for part in registry.parts(config[group])] for group in registry.BASES}
    (dataset,), (algo,), (task,), (partition,) = (made[group] for group in ("dataset", "algo", "task", "partition"))
    _possible("target", config["target"], task.targets)
    _fits(config, dataset)
    _by_class(config, algo, task, partition)
    _optimizer(config, algo)
    schedule.check(config, algo)


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
    recorded(run, f"{program()} resume={run.folder}")


def agrees(run: Run, given: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Refuses `keys` of a command line, with the values `given`, that contradict the run to be resumed."""
    for key in sorted(keys):
        if key in GROUPS:  # an option may stand for values of fields; those of a dataclass are only its defaults
            stated = {key: given[key]["name"]}
            if key not in registry.BASES:
                stated |= {f"{key}.{k}": v for k, v in given[key].items() if k != "name" and v is not None}
        else:
            stated = {key: at(given, key)}
        for name, value in stated.items():
            kept = at(run.config, name)
            kept = kept["name"] if isinstance(kept, dict) else kept
            if value not in (kept, "auto"):
                raise UserError(f"{run.folder} was run with {name}={kept}, not {value}: to resume, leave {key} out.")


def recorded(run: Run, command: str) -> None:
    """Refuses a config.yaml that another program or version wrote, that was edited into something impossible, or that
    would run code which `command` does not name."""
    path = run.folder / "config.yaml"
    keys = [key for key in KEYS if key != "resume"]
    _same_names(path, [*GROUPS, *keys], run.config.keys() - EXTRA)
    for group in GROUPS.keys() - {"protocol"}:
        node = run.config[group]
        if not isinstance(node, dict) or not isinstance(node.get("name"), str):
            raise UserError(f"{path} is not of this version: {group} has no name in it.")
    if foreign := [target for target in trust.targets(run.config).values() if not trust.is_named(target)]:
        raise UserError(
            f"{path} would run code that is not fedbench's own ({', '.join(foreign)}): if you trust it, name it, as in "
            f"{command}{trust.words(run.config)}."
        )
    for group in SCHEMAS:
        if (name := run.config[group]["name"]) in names_of(group):
            found = (f"{group}.{key}" for key in run.config[group] if key != "name")
            _same_names(path, [f"{group}.{key}" for key in fields_of(group, name)], found)
    try:
        OmegaConf.structured(Keys(**{key: run.config[key] for key in keys}))
        for group in SCHEMAS:
            typed(group, run.config[group])
        config(run.config)
    except (UserError, OmegaConfBaseException, KeyError) as error:
        text = first_line(error)
        raise UserError(f"{path} does not describe a run of this version: {text}.") from None


def _same_names(path: Path, expected: Iterable[str], found: Iterable[str]) -> None:
    missing, extra = sorted({*expected} - {*found}), sorted({*found} - {*expected})
    if missing or extra:
        parts = [f"it lacks {', '.join(missing)}"] * bool(missing) + [f"it has {', '.join(extra)}"] * bool(extra)
        raise UserError(f"{path} was written by another version of fedbench: {' and '.join(parts)}.")


def _made(group: str, node: Mapping[str, Any]) -> Any:
    """The dataclass of a node whose numbers are finite and within the bounds that its fields declare."""
    try:
        made = registry.create(node)
        if not issubclass(type(made), registry.BASES[group]):
            raise UserError(f"{node['_target_']} is no {GROUPS[group]}")
    except (TypeError, ValueError) as error:
        raise UserError(f"{str(error).rstrip('.')}.") from None
    hints = get_type_hints(type(made))
    for f in fields(made):
        key, value, hint = f"{group}.{f.name}", getattr(made, f.name), hints[f.name]
        if hint in (int, float, bool, str) and not isinstance(value, (int, float) if hint is float else hint):
            raise _impossible(key, value, f"of type {hint.__name__}")
        if isinstance(value, int | float) and not isinstance(value, bool):
            _bounded(key, value, f.metadata)
    return made


def _possible(key: str, value: Any, metadata: Mapping[str, Any]) -> None:
    """Refuses a value that is none of a field's choices, not of its form, or not within its bounds."""
    if value is None:
        return
    if "choices" in metadata and value not in metadata["choices"]:
        raise _impossible(key, value, " | ".join(metadata["choices"]))
    if "form" in metadata and not re.fullmatch(metadata["form"], value):
        raise _impossible(key, value, metadata["in_words"])
    if metadata.keys() & BOUNDS.keys():
        _bounded(key, value, metadata)


def _bounded(key: str, value: Any, metadata: Mapping[str, Any]) -> None:
    """Refuses a number, or a list with one, that is not finite and within the bounds."""
    bounds = {name: metadata[name] for name in BOUNDS if name in metadata}
    numbers = value if isinstance(value, list) else [value]
    shape, fits = SHAPES[metadata.get("shape", "number")]
    if not (all(_within(number, bounds) for number in numbers) and fits(value)):
        raise _impossible(key, value, shape + _interval(bounds))
    if any(number and not SMALLEST <= abs(number) <= LARGEST for number in numbers if isinstance(number, float)):
        raise _impossible(key, value, f"{shape}0, or between {SMALLEST:g} and {LARGEST:g} in size")
    if any(abs(number) >= 2**63 for number in numbers):
        raise _impossible(key, value, f"{shape}below 2^63")


def _within(number: Any, bounds: Mapping[str, float]) -> bool:
    finite = type(number) is int or (isinstance(number, float) and math.isfinite(number))
    return finite and all(BOUNDS[name][1](number, bound) for name, bound in bounds.items())


def _interval(bounds: Mapping[str, float]) -> str:
    """The bounds in words."""
    ends = {name: "2^63" if bound == 2**63 else f"{bound:g}" for name, bound in bounds.items()}
    if ends.keys() == {"min", "max"}:
        return f"between {ends['min']} and {ends['max']}"
    if ends.keys() == {"above", "below"}:
        return f"between {ends['above']} and {ends['below']}, both excluded"
    words = " and ".join(f"{BOUNDS[name][0]} {end}" for name, end in ends.items())
    if len(ends) == 2:
        return words
    return f"a finite number {'of ' if words.startswith('at') else ''}{words}".rstrip()


def _impossible(key: str, value: Any, allowed: str) -> UserError:
    return UserError(f"{key}={value} is not possible: it must be {allowed}.")


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


def _by_class(config: Mapping[str, Any], algo: Algorithm, task: Task, partition: Partition) -> None:
    """Refuses what goes by classes where a task has none."""
    if task.by_class:
        return
    name, dealt, method = (config[group]["name"] for group in ("task", "partition", "algo"))
    if partition.by_class:
        raise UserError(
            f"partition={dealt} is not possible with task={name}: it deals by class, and the labels of "
            f"{config['dataset']['name']} are numbers; partition=iid does without."
        )
    if need := algo.needs_classes:
        raise UserError(f"algo={method} is not possible with task={name}, whose labels are numbers: {need}.")


def _optimizer(config: Mapping[str, Any], algo: Algorithm) -> None:
    name, momentum, method = config["optimizer"]["name"], config["momentum"], config["algo"]["name"]
    if algo.own_rate and config["lr_decay"] != 1:
        raise UserError(
            f"lr_decay={config['lr_decay']} is not possible with {method}, which works the devices' rates out itself."
        )
    asked = [f"optimizer={name}"] * (name != "sgd") + [f"clip_norm={config['clip_norm']}"] * bool(config["clip_norm"])
    if algo.plain_sgd and asked:
        raise UserError(f"{asked[0]} is not possible with {method}, whose maths needs plain SGD on the devices.")
    if name != "sgd" and momentum:
        raise UserError(f"momentum={momentum} is for optimizer=sgd: give momentum=0, {name} has one of its own.")


def at(config: Mapping[str, Any], key: str) -> Any:
    """The value of a key as it is written on the command line."""
    group, _, name = key.rpartition(".")
    return config[group].get(name) if group else config.get(name)

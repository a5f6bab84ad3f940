"""Algorithms, data sets, tasks, partitions and transforms of uploads are dataclasses; each joins its Hydra group under
its lower-case name."""

from __future__ import annotations

import inspect
import pkgutil
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, field, fields, make_dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hydra.core.config_store import ConfigStore

from algorithms.base import Algorithm
from algorithms.uploads.base import Transform
from bench import own_code, trust
from bench.errors import UserError, unknown
from bench.prepare.given_data import Given
from bench.tasks.base import Task
from datamodules.base import Dataset
from datamodules.partition import Partition

BASES: dict[str, type] = {
    "algo": Algorithm,
    "dataset": Dataset,
    "task": Task,
    "partition": Partition,
    "upload": Transform,
}
NOTHING = "none"  # of the group upload, whose options are rows of transforms: none, topk, topk+quantise
_classes: dict[str, dict[str, type]] = {group: {} for group in BASES}
_twins: dict[tuple[str, str], type] = {}


def classes(group: str) -> dict[str, type]:
    """The options of a group by name: every concrete class found in the packages, plus those registered by hand."""
    _discover()
    return dict(sorted(_classes[group].items()))


def register(cls: type) -> type:
    """Make a class from anywhere an option of its group; returns it, so that it can be used as a decorator."""
    group = next((g for g, base in BASES.items() if issubclass(cls, base)), None)
    if group is None:
        raise TypeError(f"{cls.__name__} is not an Algorithm, a Dataset, a Task, a Partition or a Transform")
    name = cls.__name__.lower()
    known = _classes[group].get(name, cls)
    if own_code.target(known) != own_code.target(cls):
        raise ValueError(f"two classes are called {group}={name}: {own_code.target(known)} and {own_code.target(cls)}")
    _classes[group][name] = cls
    if group == "upload":
        combine(name)
    else:
        _store(group, name, [("_target_", str, field(default=own_code.target(cls))), *_twin_fields(cls)])
    if group in ("task", "partition"):
        union = {f[0]: (f[0], Any, None) for c in _classes[group].values() for f in _twin_fields(c)}
        _store(group, "auto", list(union.values()))
    return cls


def combine(name: str) -> None:
    """Makes topk+quantise an option of the group upload: one transform after the other, with the fields of both."""
    known, parts = _classes["upload"], name.split("+")
    for k, part in enumerate(parts):
        if part not in known:
            raise unknown("transform of uploads", part, known)
        if part in parts[:k]:
            raise UserError(f"upload={name} has {part} twice: each transform once, as in upload=topk+quantise.")
    columns: dict[str, tuple[str, Any, Any]] = {}
    for part in parts:
        for column in _twin_fields(known[part]):
            if column[0] in columns:
                raise UserError(
                    f"upload={name} would have two fields upload.{column[0]}: give that of {part} another name."
                )
            columns[column[0]] = column
    targets = [own_code.target(known[part]) for part in parts]
    _store("upload", name, [("_target_", list[str], field(default_factory=targets.copy)), *columns.values()])


def options(group: str) -> list[str]:
    """What can be chosen of a group: rows of transforms are there once they were named."""
    if group != "upload":
        return list(classes(group))
    _discover()
    return sorted((name for of, name in _twins if of == group), key=lambda name: (name != NOTHING, name))


def columns(group: str, option: str) -> list[str]:
    """The fields that can be set of an option."""
    return [f.name for f in fields(twin(group, option)) if f.name not in ("name", "_target_")]


def parts(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The nodes of the dataclasses that a node stands for: of each transform, else it alone."""
    targets = node.get("_target_", [])
    if isinstance(targets, str):
        return [node]
    found: list[Mapping[str, Any]] = []
    known: list[str] = []
    left = {key: value for key, value in node.items() if key not in ("_target_", "name")}
    for target in targets:
        own = defaults(_load(target))
        known += own
        found.append({"_target_": target, **{key: left.pop(key) for key in own if key in left}})
    if left:
        raise unknown(f"field of upload={node.get('name')}", next(iter(left)), known)
    return found


def transforms(node: Mapping[str, Any]) -> tuple[Transform, ...]:
    """Those of the group upload."""
    return tuple(map(create, parts(node)))


def target(group: str, option: str) -> str | list[str]:
    """What `_target_` of an option is."""
    if group != "upload":
        return own_code.target(classes(group)[option])
    return [own_code.target(classes(group)[part]) for part in option.split("+")]


def create(node: Mapping[str, Any]) -> Any:
    """The dataclass that a node of the resolved config describes."""
    cls = _load(str(node["_target_"]))
    hints = get_type_hints(cls)
    values = {k: v for k, v in node.items() if k not in ("_target_", "name")}
    for key in values:
        if key not in hints:
            raise unknown(f"field of {own_code.target(cls)}", key, defaults(cls))
    fitted = {key: _fitted(key, value, hints[key]) for key, value in values.items()}
    try:
        return cls(**fitted)
    except (TypeError, ValueError):  # how a class refuses values
        raise
    except (Exception, SystemExit) as error:
        own_code.tell(cls, "__post_init__", error)
        raise


@contextmanager
def borrowed() -> Iterator[None]:
    """What is registered inside is forgotten afterwards: a user's own files belong to one command."""
    _discover()
    stored = ConfigStore.instance().repo
    tables = [*_classes.values(), _twins, *(stored[group] for group in BASES)]
    before = [dict(table) for table in tables]
    try:
        yield
    finally:
        for table, content in zip(tables, before, strict=True):
            table.clear()
            table.update(content)


def twin(group: str, name: str) -> type:
    """What Hydra holds for an option: the same fields, unfrozen, plus name and _target_."""
    _discover()
    return _twins[group, name]


def title(cls: type) -> str:
    """The first line of the docstring."""
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def defaults(cls: type) -> dict[str, Any]:
    """Field names with their defaults."""
    return {f.name: _default(f) for f in fields(cls)}


@cache
def _discover() -> None:
    _store("upload", NOTHING, [])
    for package in ("algorithms", "algorithms.uploads", "datamodules", "bench.tasks"):
        for info in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
            name = info.name.rpartition(".")[2]
            # module.py imports all of Lightning (5 s); names with an underscore are private or commands
            if name.startswith("_") or name in ("base", "module"):
                continue
            module = import_module(info.name)
            for cls in vars(module).values():
                if inspect.isclass(cls) and cls.__module__ == info.name and is_option(cls):
                    register(cls)


def _load(name: str) -> Any:
    """An option of any group: fedbench's own, one that was registered, or one in a file that was named."""
    _discover()
    known = (cls for group in _classes.values() for cls in group.values() if own_code.target(cls) == name)
    cls = own_code.load(name) if trust.split(name) else next(known, None)
    if cls is None and name == own_code.target(Given):
        return Given
    if not inspect.isclass(cls) or not is_option(cls):
        raise UserError(f"There is no {name} in this version of fedbench.")
    return cls


def is_option(cls: type, group: str | None = None) -> bool:
    """Is it one of the group, or of any, to be chosen by name?"""
    public = not cls.__name__.startswith("_") and cls not in BASES.values() and not inspect.isabstract(cls)
    return public and issubclass(cls, BASES[group] if group else tuple(BASES.values()))


def _store(group: str, name: str, columns: list[tuple[str, Any, Any]]) -> None:
    # Hydra makes nodes of frozen dataclasses read-only, so it gets an unfrozen twin
    _twins[group, name] = make_dataclass(f"{group}_{name}", [("name", str, field(default=name)), *columns])
    ConfigStore.instance().store(group=group, name=name, node=_twins[group, name])


def _twin_fields(cls: type) -> list[tuple[str, Any, Any]]:
    hints = get_type_hints(cls)
    return [(f.name, _hint(hints[f.name]), field(default_factory=partial(_default, f))) for f in fields(cls)]


def _fitted(key: str, value: Any, hint: Any) -> Any:
    """A value for a field whose type OmegaConf does not check."""
    if get_origin(hint) is tuple and isinstance(value, list):
        return tuple(value)
    if get_origin(hint) is Literal and value not in get_args(hint):
        raise ValueError(f"{key} must be {' or '.join(map(str, get_args(hint)))}, not {value}")
    allowed = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else ()
    if float in allowed and type(value) is int:
        return float(value)
    if allowed and not isinstance(value, tuple(a for a in allowed if isinstance(a, type))):
        raise ValueError(f"{key} must be {' or '.join(a.__name__ for a in allowed)}, not {value}")
    return value


def _default(f: Field[Any]) -> Any:
    if f.default_factory is not MISSING:
        return f.default_factory()
    if f.default is MISSING:
        return None
    return list(f.default) if isinstance(f.default, tuple) else f.default


def _hint(hint: Any) -> Any:
    """The hint as OmegaConf takes it: X | None as Optional; Literals and other unions are left to the class."""
    if hint in (int, float, bool, str):
        return hint
    if get_origin(hint) in (Union, types.UnionType):
        inner = [a for a in get_args(hint) if a is not type(None)]
        return inner[0] | None if inner[0] in (int, float, bool, str) and len(inner) == 1 else Any
    return Any

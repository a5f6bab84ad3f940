"""Classes in files of the user's: algo=./mine.py, or dataset=, task=, partition=, upload=, stands for the one in it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from omegaconf.errors import OmegaConfBaseException

from bench import own_code, trust
from bench.errors import UserError, unknown
from bench.metrics import Metric
from bench.prepare import registry
from bench.prepare.config import GROUPS, KEYS
from bench.prepare.resolve import fields_of, names_of

_DOTTED = re.compile(r"[\w.]+")  # package.Class, within a,b too
_PATH = re.compile(r"(?<![^,()\[\]'\"])[^,()\[\]'\"]+\.py(?::\w+)?(?=$|[\s,)\]'\"])")  # also within a,b and choice(a,b)
_ONE = re.compile(_PATH.pattern.replace("[^,", "[^+,").replace(r"[\s,", r"[\s+,"))  # also within a+b
_ROW = re.compile(r"\w+(?:\+\w*)+")  # a+b
_SAFE = re.compile(r"[\w./:+@%*-]+")
LONGEST = 80  # characters of a class's name
_NEEDED = {
    "algo": (),
    "dataset": ("title", "defaults", "load", "available"),
    "task": ("metric", "loss", "score"),
    "partition": ("deal",),
    "upload": ("send",),
}


def arguments(argv: Sequence[str]) -> list[str]:
    """The command line as Hydra takes it: files are loaded and stand there by the name of the class in them."""
    return [_argument(text) for text in argv]


def _argument(text: str) -> str:
    key, equals, value = text.partition("=")
    if equals and key == "upload":
        return f"{key}={transforms(value)}"
    if equals and key in registry.BASES:
        return f"{key}={_PATH.sub(lambda found: register(key, found[0]), value)}"
    if equals and key == "model.target":
        for name in _DOTTED.findall(value):
            trust.name(name)
        quoted = "'" in value or '"' in value
        return f"{key}={_PATH.sub(lambda found: _absolute(found[0], quoted), value)}"
    return text


def transforms(text: str) -> str:
    """Rows of transforms as options of their group: topk+./mine.py is topk+mine."""
    registry.classes("upload")
    names = _ONE.sub(lambda found: register("upload", found[0]), text)
    for row in _ROW.findall(names):
        registry.combine(row)
    return names


def _absolute(text: str, quoted: bool) -> str:
    """So that a record can be resumed from another folder."""
    found = trust.split(text)
    assert found is not None
    path, name = found
    trust.name(str(path))
    full = f"{path}:{name}" if name else str(path)
    return full if quoted or _SAFE.fullmatch(full) else "'" + full.replace("'", r"\'") + "'"


def named(config: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """A recorded config with the files that these words of a command name in place of those it names."""
    for word in words:
        key, _, value = word.partition("=")
        found = trust.split(value)
        if key == "upload":
            config = config | {key: taken(config[key], key, transforms(value))}
        elif key in registry.BASES and found:
            name = register(key, value)
            config = config | {key: taken(config[key], key, name)}
        elif key == "model.target" and config["model"].get("name") == "custom":
            trust.name(value)
            own = str(found[0]) + f":{found[1]}" * bool(found[1]) if found else value
            config = config | {"model": config["model"] | {"target": own}}
        elif word != "model=custom":
            allowed = ", ".join(f"{group}=./file.py" for group in registry.BASES)
            raise UserError(f"'{word}' names no code that this record could run: {allowed} or model.target=... may.")
    return config


def taken(node: Mapping[str, Any], group: str, name: str) -> dict[str, Any]:
    """A recorded node with the class of this name, which may lie elsewhere by now."""
    if node["name"] != name:
        raise UserError(f"The record was run with {group}={node['name']}, not {name}.")
    return {**node, "_target_": registry.target(group, name)}


def register(group: str, text: str) -> str:
    """Makes the class that ./file.py or ./file.py:Name means an option of its group; returns the option's name."""
    found = trust.split(text)
    assert found is not None
    path, wanted = found
    trust.name(str(path))
    module, base = own_code.load_file(path), registry.BASES[group]
    mine = {
        cls.__name__: cls
        for cls in vars(module).values()
        if inspect.isclass(cls) and cls.__module__ == module.__name__ and registry.is_option(cls, group)
    }
    if not mine:
        raise UserError(f"{path} defines no {GROUPS[group]}: no class in it extends {base.__module__}.{base.__name__}.")
    if wanted and wanted not in mine:
        raise unknown(f"{GROUPS[group]} in {path}", wanted, mine)
    if not wanted and len(mine) > 1:
        raise UserError(
            f"{path} defines several ({', '.join(mine)}): name one, as in {group}={text.strip()}:{min(mine)}."
        )
    return option(group, mine[wanted] if wanted else next(iter(mine.values())), path)


def option(group: str, cls: type, path: Path | None = None) -> str:
    """Makes a class from a file, or from a program, an option of its group; returns the option's name."""
    where = f"in {path}" if path else f"of {cls.__module__}"
    if len(cls.__name__) > LONGEST:
        raise UserError(
            f"The name of {cls.__name__[:20]}... {where} has {len(cls.__name__)} characters, but folders are named "
            f"after it: at most {LONGEST}."
        )
    _check(group, cls, f"{cls.__name__} {where}")
    known = registry.classes(group).get(cls.__name__.lower(), cls)
    if own_code.target(known) != own_code.target(cls):
        raise UserError(
            f"{cls.__name__} {where} would be {group}={cls.__name__.lower()}, which is {own_code.target(known)} "
            f"already: give the class another name."
        )
    try:
        registry.register(cls)
    except (NameError, TypeError, ValueError, OmegaConfBaseException) as error:
        raise UserError(f"{cls.__name__} {where} cannot be an option: {own_code.reason(error, path)}.") from None
    return cls.__name__.lower()


def _check(group: str, cls: type, name: str) -> None:
    if "__dataclass_fields__" not in vars(cls):
        raise UserError(f"{name} is not a dataclass: put @dataclass(frozen=True, kw_only=True) above it.")
    for f in fields(cls):
        if f.default is MISSING and f.default_factory is MISSING:
            raise UserError(f"{name} has no default for {f.name}: every field needs one.")
    base = registry.BASES[group]
    if missing := [key for key in _NEEDED[group] if getattr(cls, key, None) is getattr(base, key, None)]:
        raise UserError(f"{name} does not define {', '.join(missing)}, which every {GROUPS[group]} needs.")
    if group == "task" and not isinstance(cls.metric, Metric):  # type: ignore[attr-defined]
        raise UserError(f"metric of {name} has to be a bench.metrics.Metric, as in Metric('mae', 'MAE', higher=False).")
    if group == "dataset":
        _check_defaults(cls.defaults, name)  # type: ignore[attr-defined]


def _check_defaults(defaults: Any, name: str) -> None:
    """`defaults` of a data set: keys of a run, and for a group a table with its name."""
    if not isinstance(defaults, Mapping):
        raise UserError(f"defaults of {name} has to be a dictionary of keys of a run, not {type(defaults).__name__}.")
    groups = ("task", "model", "partition", "devices", "optimizer")
    for key, value in defaults.items():
        if key not in (*groups, *KEYS):
            raise unknown(f"key in defaults of {name}", str(key), [*groups, *KEYS])
        if key in groups and not (isinstance(value, Mapping) and "name" in value):
            raise UserError(f"defaults of {name} has {key}={value!r}: write it as {{'name': {str(value)!r}}}.")
        if key in groups and value["name"] in names_of(key):
            known = fields_of(key, value["name"])
            for field in value.keys() - {"name", *known}:
                raise unknown(f"field of {key}={value['name']} in defaults of {name}", str(field), known)

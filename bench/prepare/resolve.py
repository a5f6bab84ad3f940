"""Fills what was left open: data set < own module < protocol < scale < command line. It becomes a run's config.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Set
from copy import deepcopy
from dataclasses import MISSING, fields
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bench import own_code
from bench.errors import UserError, unknown
from bench.prepare import registry
from bench.prepare.config import GROUPS, SCHEMAS, Keys, in_words, optional

CONF = Path(__file__).parents[1] / "conf"
FALLBACK = {"task": "classification", "model": "mlp", "partition": "iid", "devices": "mixed", "optimizer": "sgd"}


def resolve(cfg: Mapping[str, Any], given: Set[str]) -> dict[str, Any]:
    """`cfg`: what Hydra composed, as plain containers; `given`: the dotted keys named on the command line."""
    algo, dataset = cfg["algo"]["name"], cfg["dataset"]["name"]
    protocol = options("protocol")[choose_protocol(cfg["protocol"]["name"], algo, dataset)[0]]
    heavy = protocol.get("heavy", {}).get(dataset, {})
    scale = cfg["scale"] or "auto"
    if scale == "auto":
        scale = "cpu" if heavy and not _uses_gpu(cfg["engine"]["device"]) else "paper"
    layers = [registry.classes("dataset")[dataset].defaults, protocol.get("datasets", {}).get(dataset, {})]  # type: ignore[attr-defined]
    layers.append(protocol.get("keys", {}).get(algo, {}))
    if scale in ("cpu", "smoke"):
        layers.append(heavy)

    of_protocol = [part.get("algo", {}).get(algo, {}) for part in (protocol, *layers)]
    config: dict[str, Any] = {"algo": _fields("algo", cfg["algo"], of_protocol, given)}
    config["dataset"] = _fields("dataset", cfg["dataset"], [layer.get("dataset", {}) for layer in layers], given)
    for group in FALLBACK:
        config[group] = _node(group, cfg[group], layers, given)
    config["upload"] = _fields("upload", cfg["upload"], [], given)
    if config["model"]["name"] == "custom":
        from bench.models.custom import sgd  # the user's module decides whether Lightning is imported here

        layers.insert(1, sgd(config["model"], config["dataset"], config["task"]))
    config |= {"protocol": protocol["name"], "scale": scale}
    for group in ("engine", "logger"):
        config[group] = typed(group, cfg[group])
    return config | _scalars(cfg, layers, scale, given)


def choose_protocol(name: str, algo: str, dataset: str) -> tuple[str, str]:
    """Its name, and why it was chosen."""
    known = options("protocol")
    if name != "auto":
        covered = known[name].get("datasets", {})
        if name != "none" and dataset not in covered:
            raise UserError(
                f"protocol={name} does not cover dataset={dataset}, only {', '.join(covered)}; leave protocol out "
                f"or take protocol=none."
            )
        return name, "as asked"
    for option, content in known.items():
        if algo in content.get("methods", ()) and dataset in content.get("datasets", {}):
            return option, f"{algo}'s own paper"
    for option, content in known.items():
        if dataset in content.get("home", ()):
            return option, f"the home protocol of {dataset}"
    return "none", f"no paper sets one for {dataset}; the data set's own defaults"


def describe(config: Mapping[str, Any]) -> list[str]:
    """The first lines of a run: what was resolved, before anything is loaded."""
    algo, dataset, protocol, scale = config["algo"], config["dataset"]["name"], config["protocol"], config["scale"]
    by_rule, why = choose_protocol("auto", algo["name"], dataset)
    why = why if by_rule == protocol else "as asked"
    meaning = "nothing made smaller" if scale == "paper" else "add scale=paper for the paper's"
    return [
        f"algorithm  {call(algo)} on {dataset}, seed {config['seed']}, {config['rounds']} rounds",
        f"protocol   {protocol} ({why})",
        f"scale      {scale} ({meaning})",
        f"partition  {call(config['partition'])} over {config['clients']} clients",
        f"model      {call(config['model'])}",
        *([f"optimizer  {call(config['optimizer'])}"] if config["optimizer"]["name"] != "sgd" else []),
        *([f"upload     {call(config['upload'])}"] if config["upload"]["name"] != registry.NOTHING else []),
    ]


@cache
def options(group: str) -> dict[str, dict[str, Any]]:
    """The files of a group by name. A model has the fields that its file lists, other options have all of the group's:
    of a device population what is not in the file is left open, engine and logger have defaults."""
    every: dict[str, Any] = {}
    if group == "devices":
        every = dict.fromkeys(f.name for f in fields(SCHEMAS[group]))
    elif group in ("engine", "logger"):
        every = _plain(OmegaConf.structured(SCHEMAS[group]))
    return {path.stem: every | _plain(OmegaConf.load(path)) for path in sorted((CONF / group).glob("*.yaml"))}


def names_of(group: str) -> list[str]:
    """The options of a group, `auto` apart."""
    return registry.options(group) if group in registry.BASES else list(options(group))


def fields_of(group: str, option: str) -> list[str]:
    """What can be set below a group once the option is chosen."""
    if group in registry.BASES and option != "auto":
        return registry.columns(group, option)
    if option == "auto" and option not in options(group):
        return list(dict.fromkeys(f for name in names_of(group) for f in fields_of(group, name)))
    return [] if group == "protocol" else [key for key in options(group)[option] if key != "name"]


def _fields(group: str, node: Mapping[str, Any], layers: list[Mapping[str, Any]], given: Set[str]) -> dict[str, Any]:
    """The fields of the algorithm or data set that was asked for: those not given may be set by the protocol."""
    values = dict(node)
    for layer in layers:
        values |= {key: value for key, value in layer.items() if f"{group}.{key}" not in given}
    return typed(group, values)


def _node(group: str, node: Mapping[str, Any], layers: list[Mapping[str, Any]], given: Set[str]) -> dict[str, Any]:
    """One of the groups that have `auto`: an option asked for by name wins over the layers, one of theirs does not."""
    asked = node["name"] != "auto"
    named = [layer[group]["name"] for layer in layers if "name" in layer.get(group, {})]
    option = node["name"] if asked else (named or [FALLBACK[group]])[-1]
    if option not in names_of(group):
        raise unknown(f"{GROUPS[group]} in the data set's defaults", option, names_of(group))
    if group in registry.BASES:
        cls = registry.classes(group)[option]
        own: dict[str, Any] = {"name": option, "_target_": own_code.target(cls)}
        open_fields = registry.defaults(cls)
    else:
        content = node if asked else options(group)[option]
        own = {key: value for key, value in content.items() if value is not None}
        schema = _plain(_structured(SCHEMAS[group]))
        open_fields = {key: schema[key] for key in content if key != "name"}
    name = own["name"]
    values = open_fields | ({} if asked else own)
    for layer in layers:
        part = layer.get(group, {})
        if part.get("name", name) in (name, option):
            values |= {key: value for key, value in part.items() if key in open_fields}
    if asked:
        values |= own
    for key in (k for k in node if f"{group}.{k}" in given):
        if key not in open_fields:
            have = [o for o in names_of(group) if key in fields_of(group, o)]
            raise UserError(
                f"{group}.{key} was given, but {group}={name} here, which has no {key}; add {group}={'|'.join(have)}."
            )
        if node[key] is not None or (group in SCHEMAS and key in optional(SCHEMAS[group])):
            values[key] = node[key]
    return typed(group, {"name": name} | values)


def typed(group: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` as the group's schema has them: 1 becomes 1.0 for a float, a text is refused."""
    schema = SCHEMAS[group] if group in SCHEMAS else registry.twin(group, values["name"])
    typed = deepcopy(_structured(schema))
    for key, value in values.items():
        try:
            OmegaConf.update(typed, key, value)
        except OmegaConfBaseException as error:
            raise UserError(f"{group}.{key}={value}: {in_words(str(error).partition(chr(10))[0])}.") from None
    plain = _plain(typed)
    return {key: plain[key] for key in values}


@lru_cache(maxsize=128)
def _structured(schema: type) -> DictConfig:
    """To be copied, which takes a quarter of the time."""
    made: DictConfig = OmegaConf.structured(schema)
    return made


def _scalars(cfg: Mapping[str, Any], layers: list[Mapping[str, Any]], scale: str, given: Set[str]) -> dict[str, Any]:
    values: dict[str, Any] = {f.name: f.default for f in fields(Keys) if f.name not in ("scale", "resume")}
    for layer in layers:
        values |= {key: value for key, value in layer.items() if key in values}
    if scale == "smoke":
        values |= {key: min(values[key], 2) for key in ("rounds", "cohort", "epochs")}
        values |= {"local_unit": "step", "arrivals_per_round": 2, "test_samples": 256}
    nullable = optional(Keys)
    values |= {k: cfg[k] for k in values if cfg[k] is not None or (k in given and k in nullable)}
    if missing := [key for key, value in values.items() if value is MISSING]:
        raise UserError(f"The data set has no default for {', '.join(missing)}; add {missing[0]}=...")
    try:
        typed = OmegaConf.structured(Keys(**values))
    except OmegaConfBaseException as error:
        key, why = error.full_key, in_words(str(error).partition(chr(10))[0])
        raise UserError(f"{key}={values.get(str(key))} in the data set's defaults: {why}.") from None
    return {key: value for key, value in _plain(typed).items() if key in values}


def _uses_gpu(device: str) -> bool:
    if device != "auto":
        return device == "cuda"
    import torch

    return torch.cuda.is_available()


def call(node: Mapping[str, Any]) -> str:
    """The option with its fields, for people: dirichlet(alpha=0.3, min_size=10)."""
    inner = ", ".join(f"{k}={v}" for k, v in node.items() if k not in ("name", "_target_") and v is not None)
    return f"{node['name']}({inner})"


def _plain(node: Any) -> dict[str, Any]:
    content = OmegaConf.to_container(node, resolve=True)
    assert isinstance(content, dict)
    return {str(key): value for key, value in content.items()}

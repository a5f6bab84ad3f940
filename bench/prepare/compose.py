"""From the words of a command line to the configs of its runs, in one pass: composed, resolved, checked and kept.

The command, a multirun, a sweep and a program all come this way: `compose.config(["algo=scaffold", "rounds=20"])`.
Nothing heavy is imported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, RangeSweep
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bench import trust
from bench.errors import UserError, first_line, program
from bench.prepare import check, own_files, registry
from bench.prepare.config import DEFAULTS, GROUPS, SCHEMAS, Keys, in_words, open_twin
from bench.prepare.resolve import names_of, options, resolve
from bench.prepare.unused import unused
from bench.record import read

VERSION_BASE = "1.3"
FEW = 10  # runs, of which each keeps its model
MOST = 10_000  # runs of one command
ANYWHERE = {"engine.workers", "engine.address"}  # where a run is computed does not change it, so a resume may


@dataclass(frozen=True)
class ComposedRun:
    """One run that a command line means."""

    words: tuple[str, ...]  # its part of the command line
    keys: frozenset[str]  # those that the words name
    given: Mapping[str, Any]  # every key of a run, null where it was left open
    config: dict[str, Any]  # every key as it will be, checked; what was recorded, with `resume`

    @property
    def resume(self) -> Path | None:
        return None if self.given["resume"] is None else Path(self.given["resume"])

    @cached_property
    def smaller(self) -> dict[str, Any] | None:
        """The config of the same words at scale=cpu, if that makes a difference."""
        try:
            other = _resolved({**self.given, "scale": "cpu"}, self.keys)
        except UserError:  # it may not fit what was given for the larger one
            return None
        return None if {**other, "scale": self.config["scale"]} == self.config else other


def of_many(runs: Sequence[ComposedRun]) -> list[ComposedRun]:
    """Where there are many, a model is kept only if the words say so."""
    if len(runs) <= FEW:
        return list(runs)
    return [replace(run, config=run.config | {"keep_model": bool(run.config["keep_model"])}) for run in runs]


def config(words: Sequence[str]) -> dict[str, Any]:
    """The config of the one run that these words of a command line mean."""
    return configs([words])[0]


def configs(lines: Iterable[Sequence[str]]) -> list[dict[str, Any]]:
    """The same for many command lines, for which Hydra is set up once."""
    made = []
    with _hydra() as parser:
        for words in lines:
            with registry.borrowed():
                made.append(_plan(parser, words, multirun=False)[0].config)
    return made


def plan(words: Sequence[str], multirun: bool) -> list[ComposedRun]:
    """Every run that a command line means. Classes in files of the user's stay registered (registry.borrowed)."""
    with _hydra() as parser:
        return _plan(parser, words, multirun)


@cache
def store() -> None:
    """Registers all that Hydra composes from; it reads no files itself."""
    for group in registry.BASES:
        registry.classes(group)
    config_store = ConfigStore.instance()
    config_store.store(name="bench", node={"defaults": ["keys", *({g: o} for g, o in DEFAULTS.items()), "_self_"]})
    config_store.store(name="keys", node=open_twin(Keys, **dict.fromkeys(GROUPS)))
    for name in ("auto", *names_of("protocol")):
        config_store.store(group="protocol", name=name, node={"name": name})
    for group in ("model", "devices", "optimizer"):
        config_store.store(group=group, name="auto", node=open_twin(SCHEMAS[group], name="auto"))
    for group in SCHEMAS:
        for name, content in options(group).items():
            config_store.store(group=group, name=name, node=content)


@contextmanager
def _hydra() -> Iterator[OverridesParser]:
    store()
    with hydra.initialize(config_path=None, version_base=VERSION_BASE, job_name="bench"):
        yield OverridesParser.create(GlobalHydra.instance().config_loader())


def _plan(parser: OverridesParser, words: Sequence[str], multirun: bool) -> list[ComposedRun]:
    overrides = _parsed(parser, own_files.arguments(words))
    if setting := next((o for o in overrides if o.is_hydra_override()), None):
        raise UserError(f"{setting.input_line}: Hydra's own settings are fixed here.")
    sweeps = [o for o in overrides if o.is_sweep_override()]
    if not multirun:
        if sweeps:
            raise UserError(f"{sweeps[0].input_line} means several runs: add -m, or quote a value that has a comma.")
        return _all_used([_composed(overrides)])
    if any(sweep.key_or_group == "out" for sweep in sweeps):
        raise UserError("out cannot have several values: the runs of one command go into one folder.")
    if any(map(_endless, sweeps)) or math.prod(map(len, values := list(_values(overrides)))) > MOST:
        raise UserError(f"{' '.join(words)} means more than {MOST:,} runs, the most that one command may.")
    if not all(values):
        raise UserError("Nothing to run: a glob() matches no name, or a range() is empty.")
    return _all_used([_composed(_parsed(parser, job)) for job in product(*values)])


def _parsed(parser: OverridesParser, words: Sequence[str]) -> list[Override]:
    parsed = []
    for word in words:
        try:
            parsed += parser.parse_overrides([word])
        except (HydraException, ValueError, RecursionError):  # numbers of thousands of digits, lists in lists in lists
            raise UserError(f"'{word}' is not key=value{_meant(word)}; see {program()} --help.") from None
    return parsed


def _meant(word: str) -> str:
    """What somebody who types this may have wanted."""
    if "=" in word:
        return ", or its value needs quotes"
    if word in GROUPS:
        return " (without blanks)"
    group = next((group for group in GROUPS if word in names_of(group)), None)
    return "" if group is None else f", as in {group}={word}"


def _values(overrides: Iterable[Override]) -> Iterable[list[str]]:
    """For each key the words that a multirun combines, the last key's fastest; a key given twice has its last."""
    values: dict[str, list[str]] = {}
    for override in overrides:
        key = override.get_key_element()
        if not override.is_sweep_override():
            values[key] = [f"{key}={override.get_value_element_as_str()}"]
        elif override.is_discrete_sweep():
            values[key] = [f"{key}={value}" for value in override.sweep_string_iterator()]
        else:
            raise UserError(f"{override.input_line}: a multirun does not support intervals, only lists and ranges.")
    return values.values()


def _endless(override: Override) -> bool:
    """Of a range, whether it alone has too many values; they are not counted out."""
    values = override.value()
    if not isinstance(values, RangeSweep) or values.start is None or values.stop is None:
        return False
    return abs(values.stop - values.start) > MOST * abs(values.step)


def _composed(overrides: Sequence[Override]) -> ComposedRun:
    check.names(overrides)
    words = tuple(str(override.input_line) for override in overrides)
    keys = frozenset(override.key_or_group for override in overrides)
    try:
        given: Any = OmegaConf.to_container(_merged(overrides), resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise UserError(f"{in_words(first_line(error))}.") from None
    for override in overrides:
        if "${" in str(override.input_line) and check.at(given, override.key_or_group) is None:
            raise UserError(f"{override.input_line} refers to a key that is left open, whose value is not known yet.")
    return ComposedRun(words, keys, given, _resolved(given, keys) if given["resume"] is None else _kept(given, keys))


def _merged(overrides: Sequence[Override]) -> DictConfig:
    """What hydra.compose("bench", words) gives of words that check.names let pass, in a tenth of its time: it copies
    the whole store and composes settings of its own every time."""
    load = ConfigStore.instance().load
    chosen = DEFAULTS | {o.key_or_group: str(o.value()) for o in overrides if o.key_or_group in GROUPS}
    nodes = {group: load(f"{group}/{option}.yaml").node for group, option in chosen.items()}
    merged = OmegaConf.unsafe_merge(load("keys.yaml").node, nodes)
    assert isinstance(merged, DictConfig)
    OmegaConf.set_struct(merged, True)
    for override in overrides:
        if override.key_or_group not in GROUPS:
            try:
                OmegaConf.update(merged, override.key_or_group, override.value())
            except OmegaConfBaseException as error:
                raise UserError(f"{override.input_line}: {in_words(first_line(error))}.") from None
    return merged


def _all_used(runs: list[ComposedRun]) -> list[ComposedRun]:
    """Refuses a key that makes no difference to any of the runs."""
    needs = [unused(run.config) if run.resume is None else {} for run in runs]
    pairs = list(zip(runs, needs, strict=True))
    for key in sorted(needs[0]):
        value = check.at(runs[0].given, key)
        if value is not None and all(key in run.keys & need.keys() for run, need in pairs):
            raise UserError(f"{key}={value} makes no difference here: it needs {needs[0][key]}.")
    return runs


def _resolved(given: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    config = resolve(given, keys)
    check.config(config)
    check.writable(Path(config["out"]))
    return config


def _kept(given: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    """The config of the run to resume, which the command line must not contradict."""
    run = read(Path(given["resume"]))
    named = {key for key in keys & registry.BASES.keys() if any(map(trust.split, trust.listed(given[key])))}
    same = {key for key in named if given[key]["name"] == run.config[key]["name"]}  # others are refused below
    run = replace(run, config=run.config | {k: own_files.taken(run.config[k], k, given[k]["name"]) for k in same})
    check.resumable(run)
    check.writable(run.folder, "resume")
    check.agrees(run, given, keys - {"resume"} - ANYWHERE)
    names = [key.removeprefix("engine.") for key in keys & ANYWHERE]
    config = run.config | {"engine": run.config["engine"] | {name: given["engine"][name] for name in names}}
    check.config(config)
    return config

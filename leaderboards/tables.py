"""Runs as a text table: one row per method and setting, means over seeds, grouped by data set and protocol."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.metrics import MB, PLUS_MINUS, interval_text, mean_interval, missed_text
from bench.record import Run

# keys that do not make another experiment: who, where, when, how often something is written
IGNORED = (
    *("_target_", "seed", "out", "logger", "group", "command", "created", "git_revision", "checkpoint_seconds"),
    "protocol",
)
Setting = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Entry:
    """The finished runs of one method in one setting, one per seed."""

    algo: str
    setting: Setting  # what tells it from the other rows of its group
    runs: tuple[Run, ...]

    @property
    def name(self) -> str:
        return " ".join([self.algo, *(f"{key}={value}" for key, value in self.setting)])

    def values(self, key: str) -> list[Any]:
        return [run.result[key] for run in self.runs if run.result is not None]

    def mean(self, key: str) -> float:
        """Over the runs that have the number: a run that diverged early lacks some."""
        values = [value for value in self.values(key) if value is not None]
        return mean_interval(values)[0] if values else math.nan

    @property
    def diverged(self) -> int:
        return self.values("final_accuracy").count(None)


@dataclass(frozen=True)
class Group:
    dataset: str
    protocol: str
    entries: tuple[Entry, ...]  # best first
    title: str  # what all its runs have in common
    repeats: int  # older runs of a seed that a later one replaces


def group(runs: Sequence[Run]) -> list[Group]:
    """Finished runs by data set and protocol; of runs that differ in nothing the latest counts."""
    cells: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: str(run.config["created"])):
        if run.result is not None:
            cells[run.config["dataset"]["name"], run.config["protocol"]].append(run)
    return [_group(*key, cells[key]) for key in sorted(cells)]


def leaderboard(runs: Sequence[Run]) -> str:
    """The table that ends a multirun and that `python -m leaderboards table` prints."""
    groups = group(runs)
    notes = []
    if any(len(entry.runs) > 1 for g in groups for entry in g.entries):
        notes.append(f"Means over seeds {PLUS_MINUS} half the width of the 95 % t interval.")
    missed = [len(entry.runs) for g in groups for entry in g.entries if None in entry.values("rounds_to_target")]
    if missed:
        many = max(missed) > 1
        notes.append(f"never{' (m of n): m of the n seeds missed' if many else ': the run missed'} the target.")
    if len(protocols := sorted({g.protocol for g in groups})) > 1:
        notes.append(f"Protocols differ ({', '.join(protocols)}): compare rows within a table, not between tables.")
    if repeats := sum(g.repeats for g in groups):
        notes.append(f"{repeats} older run(s) left out: a later one has the same settings and seed.")
    if unfinished := Counter(run.status for run in runs if run.result is None):
        counts = ", ".join(f"{count} {status}" for status, count in sorted(unfinished.items()))
        notes.append(f"Runs without a result left out: {counts}.")
    tables = [_table(g) for g in groups] or ["No finished runs."]
    return "\n\n".join([*tables, *(["\n".join(notes)] if notes else [])])


def aligned(lines: Sequence[Sequence[str]], words: Collection[int] = (0,)) -> list[str]:
    """Columns under each other: those with words to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (
        [
            cell.ljust(width) if i in words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in lines
    )
    return ["  ".join(cells).rstrip() for cells in padded]


def _group(dataset: str, protocol: str, runs: Sequence[Run]) -> Group:
    varied = _varied(_leaves(run) for run in runs)
    of_algo = {
        name: _varied(_algo_leaves(run) for run in runs if _algo(run) == name) for name in {_algo(run) for run in runs}
    }
    found: dict[tuple[str, Setting], dict[int, Run]] = defaultdict(dict)
    for run in runs:
        own = [(key, value) for key, value in _algo_leaves(run).items() if key in of_algo[_algo(run)]]
        other = [(key, value) for key, value in _leaves(run).items() if key in varied]
        found[_algo(run), (*own, *other)][run.config["seed"]] = run
    entries = [Entry(*key, tuple(by_seed[seed] for seed in sorted(by_seed))) for key, by_seed in found.items()]
    entries.sort(key=lambda entry: (entry.diverged == len(entry.runs), -entry.mean("final_accuracy")))
    repeats = len(runs) - sum(len(entry.runs) for entry in entries)
    return Group(dataset, protocol, tuple(entries), _title(runs[0], varied), repeats)


def _algo(run: Run) -> str:
    return str(run.config["algo"]["name"])


def _algo_leaves(run: Run) -> dict[str, str]:
    return {key: value for key, value in _flat(run.config["algo"]) if key != "name"}


def _leaves(run: Run) -> dict[str, str]:
    return {key.removesuffix(".name"): value for key, value in _flat(run.config) if not key.startswith("algo.")}


def _flat(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in node.items():
        if isinstance(value, Mapping) and key not in IGNORED:
            yield from _flat(value, f"{prefix}{key}.")
        elif key not in IGNORED:
            yield prefix + key, str(value)


def _varied(configs: Iterable[Mapping[str, str]]) -> set[str]:
    """Keys with more than one value among the configs that have them."""
    seen: dict[str, set[str]] = defaultdict(set)
    for config in configs:
        for key, value in config.items():
            seen[key].add(value)
    return {key for key, values in seen.items() if len(values) > 1}


def _title(run: Run, varied: set[str]) -> str:
    config, words = run.config, []
    for key in ("partition", "model"):
        fields = {name for name in varied if name == key or name.startswith(f"{key}.")}
        if not fields:
            inner = ", ".join(f"{k}={v}" for k, v in _flat(config[key]) if k != "name")
            words.append(f"{config[key]['name']}({inner})" if inner else config[key]["name"])
    words += [f"{key} {config[key]}" for key in ("scale", "rounds", "clients", "cohort") if key not in varied]
    return ", ".join(words)


def _table(g: Group) -> str:
    targets = {target for entry in g.entries for target in entry.values("target")}
    goal = f"{100 * targets.pop():g} %" if len(targets) == 1 else "target"
    head = ["method", "seeds", "accuracy %", "best %", f"rounds to {goal}", "s/round", "virtual s", "MB up", "MB down"]
    peer = any(any(entry.values("peer_bytes")) for entry in g.entries)
    lines = [head + (["MB peer"] if peer else [])]
    for entry in g.entries:
        traffic = [entry.mean(f"{way}_bytes") / MB for way in ("upload", "download", "peer")]
        lines.append(
            [
                entry.name,
                str(len(entry.runs)),
                _accuracy(entry),
                _shown(100 * entry.mean("best_accuracy"), ".2f"),
                _rounds(entry.values("rounds_to_target")),
                _shown(entry.mean("seconds_per_round"), ",.3f"),
                _shown(entry.mean("virtual_seconds"), ",.1f"),
                *(_shown(value, ",.1f") for value in traffic[: 3 if peer else 2]),
            ]
        )
    text = aligned(lines)
    rule = "-" * len(text[0])
    return "\n".join([f"{g.dataset}, protocol {g.protocol}", g.title, rule, text[0], rule, *text[1:], rule])


def _accuracy(entry: Entry) -> str:
    values = [100 * value for value in entry.values("final_accuracy") if value is not None]
    text = f"diverged ({entry.diverged} of {len(entry.runs)})" if entry.diverged else ""
    return " ".join(filter(None, (interval_text(values, ".2f") if values else "", text)))


def _shown(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def _rounds(values: Sequence[int | None]) -> str:
    reached = [float(value) for value in values if value is not None]
    missed = len(values) - len(reached)
    if not missed:
        return interval_text(reached, ".0f" if len(reached) == 1 else ".1f")
    return missed_text(missed, len(values))

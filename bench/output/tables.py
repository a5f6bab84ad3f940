"""Runs as a text table: one row per method and setting, means over seeds, grouped by data set and protocol."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.metrics import MB, PLUS_MINUS
from bench.output.keys import dotted
from bench.output.paces import sentences
from bench.output.seeds import SeedRuns, target_text
from bench.record import Run

# keys that do not make another experiment: who, where, when, how often something is written
IGNORED = {
    *("seed", "out", "logger", "group", "command", "created", "git_revision", "checkpoint_seconds", "protocol"),
    *("fingerprints", "engine_why"),
}
Setting = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Comparison:
    """Runs on one data set under one protocol, judged by one metric."""

    dataset: str
    protocol: str
    methods: tuple[SeedRuns[Run], ...]  # best first; a label has what tells it from the others
    title: str  # what all its runs have in common
    repeats: int  # older runs of a seed that a later one replaces


def compared(runs: Sequence[Run]) -> list[Comparison]:
    """Finished runs by data set, protocol and metric; of runs that differ in nothing the latest counts."""
    cells: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: str(run.config["created"])):
        if run.result is not None:
            cells[run.config["dataset"]["name"], run.config["protocol"], run.metric.heading].append(run)
    return [_comparison(*key[:2], cells[key]) for key in sorted(cells)]


def leaderboard(runs: Sequence[Run]) -> str:
    """The table that ends a multirun and that `python -m leaderboards table` prints."""
    found = compared(runs)
    methods = [method for comparison in found for method in comparison.methods]
    notes = []
    if any(len(method) > 1 for method in methods):
        notes.append(f"Means over seeds {PLUS_MINUS} half the width of the 95 % t interval.")
    missed = [len(method) for method in methods if method.numbers("rounds_to_target").missed]
    if missed:
        many = max(missed) > 1
        notes.append(f"never{' (m of n): m of the n seeds missed' if many else ': the run missed'} the target.")
    if len(protocols := sorted({comparison.protocol for comparison in found})) > 1:
        notes.append(f"Protocols differ ({', '.join(protocols)}): compare rows within a table, not between tables.")
    if repeats := sum(comparison.repeats for comparison in found):
        notes.append(f"{repeats} older run(s) left out: a later one has the same settings and seed.")
    if unfinished := Counter(run.status for run in runs if run.result is None):
        counts = ", ".join(f"{count} {status}" for status, count in sorted(unfinished.items()))
        notes.append(f"Runs without a result left out: {counts}.")
    tables = [_table(comparison) for comparison in found] or ["No finished runs."]
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


def _comparison(dataset: str, protocol: str, runs: Sequence[Run]) -> Comparison:
    varied = _varied(_other_keys(run) for run in runs)
    of_algo = {
        name: _varied(_algo_keys(run) for run in runs if _algo(run) == name) for name in {_algo(run) for run in runs}
    }
    found: dict[tuple[str, Setting], dict[int, Run]] = defaultdict(dict)
    for run in runs:
        own = [(key, value) for key, value in _algo_keys(run).items() if key in of_algo[_algo(run)]]
        other = [(key, value) for key, value in _other_keys(run).items() if key in varied]
        found[_algo(run), (*own, *other)][run.config["seed"]] = run
    methods = [
        SeedRuns(" ".join([algo, *(f"{key}={value}" for key, value in setting)]), by_seed)
        for (algo, setting), by_seed in found.items()
    ]
    methods.sort(key=lambda method: (method.diverged == len(method), -method.merit))
    repeats = len(runs) - sum(map(len, methods))
    return Comparison(dataset, protocol, tuple(methods), _title(runs[0], varied), repeats)


def _algo(run: Run) -> str:
    return str(run.config["algo"]["name"])


def _algo_keys(run: Run) -> dict[str, str]:
    return {key: value for key, value in _keys(run.config["algo"]).items() if key != "name"}


def _other_keys(run: Run) -> dict[str, str]:
    return _keys({key: value for key, value in run.config.items() if key != "algo"})


def _keys(node: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in dotted(node) if IGNORED.isdisjoint(key.split("."))}


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
        if not any(name == key or name.startswith(f"{key}.") for name in varied):
            inner = ", ".join(f"{k}={v}" for k, v in _keys(config[key]).items() if k != "name")
            words.append(f"{config[key]['name']}({inner})" if inner else config[key]["name"])
    words += [f"{key} {config[key]}" for key in ("scale", "rounds", "clients", "cohort") if key not in varied]
    return ", ".join(words)


def _table(comparison: Comparison) -> str:
    methods = comparison.methods
    ways = {"upload": "MB up", "download": "MB down"}
    if any(any(method.numbers("peer_bytes").known.values) for method in methods):
        ways["peer"] = "MB peer"
    metric = methods[0].metric
    best, rounds = metric.with_unit("best"), f"rounds to {target_text(methods)}"
    head = ["method", "seeds", metric.heading, best, rounds, "s/round", "virtual s"]
    lines = [
        [
            method.label,
            str(len(method)),
            _final(method),
            _mean(method, "best", f".{metric.digits}f", metric.factor),
            method.numbers("rounds_to_target").text(".0f" if len(method) == 1 else ".1f"),
            _mean(method, "seconds_per_round", ",.3f"),
            _mean(method, "virtual_seconds", ",.1f"),
            *(_mean(method, f"{way}_bytes", ",.1f", 1 / MB) for way in ways),
        ]
        for method in methods
    ]
    text = aligned([[*head, *ways.values()], *lines])
    rule = "-" * len(text[0])
    title = f"{comparison.dataset}, protocol {comparison.protocol}"
    return "\n".join([title, comparison.title, rule, text[0], rule, *text[1:], rule, *sentences(methods)])


def _final(method: SeedRuns[Run]) -> str:
    metric = method.metric
    known = method.numbers("final").known.times(metric.factor).text(f".{metric.digits}f", missing="")
    diverged = f"diverged ({method.diverged} of {len(method)})" if method.diverged else ""
    return " ".join(filter(None, (known, diverged)))


def _mean(method: SeedRuns[Run], key: str, form: str, factor: float = 1) -> str:
    """Over the runs that have the number: one that diverged early lacks some."""
    mean = factor * method.numbers(key).known.mean
    return "-" if math.isnan(mean) else format(mean, form)

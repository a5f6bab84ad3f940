"""What a paper's table is made of: runs of the benchmark, by name. Imports neither torch nor Optuna."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from importlib.resources import files
from itertools import product
from typing import Literal

from bench.errors import UserError, program, unknown

SEEDS = (0, 1, 2)  # no paper says how often it ran; three, for an interval
NARROWING = ("dataset", "algo", "method", "setting")  # keys that choose among the runs; every other key joins them all
GOALS: dict[str, Literal["minimize", "maximize"]] = {
    "rounds_to_target": "minimize",
    "final": "maximize",  # Optuna is told their merit
    "best": "maximize",
}


@dataclass(frozen=True)
class PlannedRun:
    """One cell of a table. Runs with the same method, dataset and setting are the grid its best is taken from."""

    method: str  # method, dataset, setting: as in leaderboards/claims/<paper>.csv where a claim exists
    dataset: str
    setting: str
    overrides: tuple[str, ...]  # what follows `python bench.py`, but for seed and out

    @property
    def label(self) -> tuple[str, str, str]:
        return self.method, self.dataset, self.setting

    def words(self, seed: int) -> tuple[str, ...]:
        return *self.overrides, f"seed={seed}"

    def command(self, seed: int) -> str:
        return command(self.words(seed))


@dataclass(frozen=True)
class Sweep:
    """One table or figure of a paper."""

    name: str  # "fedlga/table5"
    source: str  # where it stands in the paper, and what of it is ours
    runs: tuple[PlannedRun, ...]
    goal: str = "final"  # which number says that one run is better than another
    covers: tuple[str, ...] = ()  # the claims' `where`
    seeds: tuple[int, ...] = SEEDS
    given: tuple[str, ...] = ()  # what the user added: part of its identity

    @property
    def title(self) -> str:
        """The name of its study: the same words continue it."""
        return " ".join([self.name, *self.given])

    @property
    def jobs(self) -> tuple[tuple[str, ...], ...]:
        """The words of every benchmark to run, seed by seed; cells that share a run share its job."""
        return tuple(dict.fromkeys(run.words(seed) for seed in self.seeds for run in self.runs))

    @property
    def commands(self) -> tuple[str, ...]:
        return tuple(map(command, self.jobs))

    @property
    def grids(self) -> dict[tuple[str, str, str], list[PlannedRun]]:
        """The runs of every label, in their order: what its best is taken from."""
        found: dict[tuple[str, str, str], list[PlannedRun]] = {}
        for run in self.runs:
            found.setdefault(run.label, []).append(run)
        return found


def command(words: Iterable[str]) -> str:
    return f"{program()} {shlex.join(words)}"


def pairs(words: Iterable[str]) -> dict[str, str]:
    """The texts of key=text."""
    return dict(word.split("=", 1) for word in words)


def texts_by_key(jobs: Iterable[Iterable[str]]) -> dict[str, list[str]]:
    """What each key is set to, once for every job that sets it."""
    found: dict[str, list[str]] = {}
    for job in jobs:
        for key, text in pairs(job).items():
            found.setdefault(key, []).append(text)
    return found


@cache
def sweeps() -> dict[str, Sweep]:
    """Every sweep by name. A paper with a file bench/conf/protocol/<paper>.yaml may have one here: its SWEEPS."""
    here, protocols = files("sweeps"), files("bench") / "conf" / "protocol"
    papers = sorted(name for entry in protocols.iterdir() if (name := entry.name.removesuffix(".yaml")) != entry.name)
    found = [
        sweep
        for paper in papers
        if (here / f"{paper}.py").is_file()
        for sweep in import_module(f"sweeps.{paper}").SWEEPS
    ]
    return {sweep.name: sweep for sweep in found}


def find(name: str, overrides: Sequence[str] = ()) -> Sweep:
    """A sweep by name: `dataset=`, `algo=`, `method=`, `setting=` (patterns with * too) narrow it, `seed=0,1` sets its
    seeds, other keys replace or join those of every run."""
    known = sweeps()
    if name not in known:
        if mine := [other for other in known if other.startswith(f"{name}/")]:
            raise UserError(f"{name} has several sweeps: {', '.join(mine)}; python -m sweeps list describes them.")
        raise unknown("sweep", name, known, "python -m sweeps list shows them all")
    sweep, given = known[name], sorted(overrides)
    keys = Counter(text.partition("=")[0] for text in given)
    if twice := [key for key, count in keys.items() if count > 1 and key not in NARROWING]:
        raise UserError(f"{twice[0]} is given twice.")
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not value:
            raise UserError(f"'{text}' is not key=value; see python -m sweeps --help.")
        if key in NARROWING:
            sweep = _narrow(sweep, key, value)
        elif key == "seed":
            sweep = replace(sweep, seeds=_seeds(value))
        elif key == "out":
            raise UserError("The folder of a sweep's runs is its option --out, not a key.")
        else:
            sweep = replace(sweep, runs=tuple(replace(r, overrides=merged(r.overrides, text)) for r in sweep.runs))
    return replace(sweep, given=tuple(given))


def merged(overrides: Iterable[str], *words: str) -> tuple[str, ...]:
    """With the words in the place of what sets the same keys, or at the end."""
    return tuple({word.partition("=")[0]: word for word in (*overrides, *words)}.values())


def cells(
    protocol: str,
    datasets: Iterable[str] | Mapping[str, str],
    settings: Mapping[str, str],
    methods: Mapping[str, str | Sequence[str]],
) -> tuple[PlannedRun, ...]:
    """Every method on every data set in every setting, at the paper's scale.

    Values are overrides separated by spaces; several for one method are its grid. A data set's label is its name
    unless the mapping gives it overrides of its own.
    """
    of_dataset = datasets if isinstance(datasets, Mapping) else {name: f"dataset={name}" for name in datasets}
    return tuple(
        PlannedRun(
            method, dataset, setting, _words(option, of_dataset[dataset], f"protocol={protocol}", settings[setting])
        )
        for dataset, setting, (method, options) in product(of_dataset, settings, methods.items())
        for option in ([options] if isinstance(options, str) else options)
    )


def grid(start: str, key: str, *values: object) -> tuple[str, ...]:
    """The overrides `start` with each value of a key."""
    return tuple(f"{start} {key}={value}" for value in values)


def same(runs: Iterable[PlannedRun], setting: str, /, **label: str) -> tuple[PlannedRun, ...]:
    """The runs with this label once more under another setting: a claim that words it differently."""
    return tuple(
        replace(run, setting=setting) for run in runs if all(getattr(run, key) == value for key, value in label.items())
    )


def _words(*parts: str) -> tuple[str, ...]:
    return merged((), *(word for part in (*parts, "scale=paper") for word in part.split()))


def _narrow(sweep: Sweep, key: str, patterns: str) -> Sweep:
    def names(run: PlannedRun) -> set[str]:
        of_label = {getattr(run, key)} if key != "algo" else set()
        return of_label | {word.partition("=")[2] for word in run.overrides if word.startswith(f"{key}=")}

    options = (patterns, *patterns.split(","))  # a method's name may have a comma
    kept = tuple(run for run in sweep.runs if any(fnmatchcase(n, o) for n in names(run) for o in options))
    if not kept:
        have = sorted({name for run in sweep.runs for name in names(run)})
        raise UserError(f"{key}={patterns} leaves no run of {sweep.name}: it has {', '.join(have)}.")
    return replace(sweep, runs=kept)


def _seeds(text: str) -> tuple[int, ...]:
    try:
        seeds = tuple(int(word) for word in text.split(","))
    except ValueError:
        raise UserError(f"seed={text} is not a list of whole numbers such as seed=0,1,2.") from None
    return tuple(dict.fromkeys(seeds))

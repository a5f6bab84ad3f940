"""python -m leaderboards add: a finished run becomes a committed result, if it may."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from bench.apart import answers
from bench.errors import UserError, program
from bench.output.keys import dotted
from bench.output.outcome import gaps
from bench.record import Run, read
from leaderboards import results
from leaderboards.plans import SweepRun, every
from leaderboards.results import CommittedRun, Planned, shaping

NO_SCALE = ("seed", "scale", "dataset.source")
Overrides = tuple[str, ...]
_known: dict[Overrides, dict[str, Any]] = {}  # each takes Hydra a quarter of a second


NEW, THERE = "added", "there already"
Added = list[tuple[CommittedRun, str]]  # and what became of it


def add(folders: Sequence[Path], to: Path = results.FOLDER, replace: bool = False) -> Added:
    """The results made of these runs; nothing is written unless all of them may. `replace`: those of the same config
    give way to them, whatever came out."""
    runs = [read(folder) for folder in folders]
    for run in runs:
        refuse(run)
    configs = resolve_for(runs)
    found = [results.from_run(run, planned(run, configs)) for run in runs]
    kept = {path.stem: results.read(path) for result in found if (path := to / f"{result.name}.json").exists()}
    for result in found:
        if result.name in kept and not replace:
            _same(result, kept[result.name])
    for result in found:
        if result.name not in kept or replace:
            results.write(result, to)
    return [(result, _fate(result, kept.get(result.name), replace)) for result in found]


def _fate(result: CommittedRun, old: CommittedRun | None, replace: bool) -> str:
    if old is None:
        return NEW
    same = result.result.weights_sha256 == old.result.weights_sha256
    return f"replaced, {'the same weights' if same else 'other weights'}" if replace else THERE


def add_what_may(folders: Sequence[Path], to: Path = results.FOLDER, replace: bool = False) -> tuple[Added, list[str]]:
    """The same run by run: what was added, and why each of the others was not. One run alone is refused."""
    names = list(dict.fromkeys(name for folder in folders for name in _folders(folder)))
    if len(names) == 1:
        return add(names, to, replace), []
    added, refused, runs = Added(), list[str](), list[Run]()
    for name in names:
        try:
            run = read(name)
            refuse(run)
            runs.append(run)
        except UserError as error:
            refused.append(str(error))
    resolve_for(runs)  # all at once, they take seconds
    for run in runs:
        try:
            added += add([run.folder], to, replace)
        except UserError as error:
            refused.append(str(error))
    return added, list(dict.fromkeys(refused))


def _folders(folder: Path) -> list[Path]:
    """A run, or those in a folder of runs, or those of a sweep by the table in its folder."""
    if (folder / "config.yaml").exists():
        return [folder]
    if found := sorted(path.parent for path in folder.glob("*/config.yaml")):
        return found
    try:
        with (folder / "results.csv").open(newline="", encoding="utf-8") as file:
            ids = [row["id"] for row in csv.DictReader(file)]
    except (OSError, KeyError, UnicodeDecodeError):
        return [folder]
    return [folder.parent / Path(name).name for name in ids] or [folder]


def refuse(run: Run) -> None:
    """Says what keeps a run from being a result."""
    where, config = run.folder, run.config
    if run.result is None:
        raise UserError(f"{where} is {run.status}: only a finished run can be added; {program()} resume={where}.")
    begun, ended = config.get("git_revision"), run.result.git_revision
    if not begun or not ended:
        raise UserError(f"{where} does not say which commit it was run by: run it in a git checkout.")
    if "dirty" in begun or "dirty" in ended:
        raise UserError(f"{where} was run by code that is not committed: commit it, then run again.")
    if begun != ended:
        raise UserError(f"{where} was begun by {begun[:12]} and ended by {ended[:12]}: run it again by one of them.")
    if config["scale"] == "smoke":
        raise UserError(f"{where} has scale=smoke, which measures nothing; run it with scale=cpu or scale=paper.")
    source = str(run.result.data.get("source", ""))
    if config["dataset"].get("source") == "synthetic" or "synthetic" in source.lower() or not source:
        raise UserError(f"{where} was run on synthetic data: only runs on the real data set can be added.")
    if run.result.rounds != len(run.rows):
        raise UserError(f"{where} has {len(run.rows)} rows in metrics.csv, its result {run.result.rounds}.")
    if run.result.seed != config["seed"] or run.result.algo != config["algo"]["name"]:
        raise UserError(f"{where} has a config.yaml and a result.json of different runs.")
    for name, recorded, expected in gaps(run):
        raise UserError(
            f"{where} has {name} {recorded} in result.json, but {expected} by metrics.csv and config.yaml: run again."
        )


def planned(run: Run, configs: Mapping[Overrides, Mapping[str, Any]]) -> list[Planned]:
    """Every run of a plan that this is exactly; otherwise the nearest of its own sweep, with what differs."""
    found = [(place, _distance(run, place, configs)) for place in _candidates(run)]
    same = [(place, gaps) for place, gaps in found if not gaps[0]]
    group = run.config.get("group")
    nearest = sorted((pair for pair in found if pair[0].sweep.name == group), key=lambda pair: len(pair[1][0]))
    chosen = same or [pair for pair in nearest if len(pair[1][0]) == len(nearest[0][1][0])]
    if not chosen:
        raise UserError(
            f"{run.folder} is no run of a plan in sweeps/: python -m leaderboards command CLAIM prints one that is."
        )
    return [_entry(place, *gaps, str(run.config["scale"])) for place, gaps in chosen]


def _entry(place: SweepRun, own: Mapping[str, Any], paper: dict[str, tuple[Any, Any]], scale: str) -> Planned:
    name = "paper" if not paper else "other" if own else scale
    run = place.run
    return Planned(place.sweep.name, run.method, run.dataset, run.setting, run.overrides, name, paper)


def _distance(
    run: Run, place: SweepRun, configs: Mapping[Overrides, Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, tuple[Any, Any]]]:
    """What differs from the plan at the run's own scale, and at the paper's."""
    scale = str(run.config["scale"])
    own, paper = (configs[at_scale(place.run.overrides, name)] for name in (scale, "paper"))
    return differences(own, run.config), differences(paper, run.config)


def differences(plan: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Key -> (the plan's value, the run's), for every key that shapes training."""
    a, b = _shape(plan), _shape(config)
    names = [name for name in {**a, **b} if name not in NO_SCALE]
    return {name: (a.get(name), b.get(name)) for name in names if a.get(name) != b.get(name)}


def _shape(config: Mapping[str, Any]) -> dict[str, Any]:
    """With devices.tau_max spelled out, so that FedLGA's Tables V (left open) and VI (0.8 E) share their runs."""
    flat = dict(dotted(shaping(config)))
    if flat.get("devices.tau_max", 0) is None:
        flat["devices.tau_max"] = max(1, flat["epochs"] - 1)
    return flat


def _candidates(run: Run) -> list[SweepRun]:
    """What the run may be a run of: all that its config does not rule out at once, and all of its sweep."""
    words = {f"algo={run.config['algo']['name']}", f"dataset={run.config['dataset']['name']}"}
    found = [place for place in every() if words <= {*place.run.overrides}]
    group = run.config.get("group")
    return [p for p in found if p.sweep.name == group or all(_may_hold(run.config, w) for w in p.run.overrides)]


def _may_hold(config: Mapping[str, Any], word: str) -> bool:
    key, _, text = word.partition("=")
    group, _, name = key.rpartition(".")
    node = config.get(group, {}) if group else config
    if key in ("scale", "devices.tau_max") or name not in node:
        return True
    value = node[name]["name"] if isinstance(node[name], Mapping) else node[name]
    return bool(value == yaml.safe_load(text))


def _questions(run: Run) -> set[Overrides]:
    scales = (str(run.config["scale"]), "paper")
    return {at_scale(place.run.overrides, scale) for place in _candidates(run) for scale in scales}


def at_scale(overrides: Overrides, scale: str) -> Overrides:
    return (*(word for word in overrides if not word.startswith("scale=")), f"scale={scale}")


def resolve_for(runs: Sequence[Run]) -> dict[Overrides, dict[str, Any]]:
    """The resolved configs of all that these runs may be runs of."""
    return _resolved({overrides for run in runs for overrides in _questions(run)})


def _resolved(questions: set[Overrides]) -> dict[Overrides, dict[str, Any]]:
    """The resolved config of each command line, and of those asked for before."""
    if asked := sorted(questions - _known.keys()):
        configs = answers("bench.answers", ["configs"], asked, "the plans could not be resolved")
        _known.update(zip(asked, configs, strict=True))
    return _known


def _same(new: CommittedRun, old: CommittedRun) -> None:
    if new.result.weights_sha256 != old.result.weights_sha256:
        raise UserError(
            f"leaderboards/results/{old.name}.json has the same config and another outcome ({old.result.id}): "
            f"numbers have moved, or another machine ran it. add --replace puts {new.result.id} in its place."
        )

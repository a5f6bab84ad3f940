"""What was measured, sweep by sweep: the runs behind the verdicts, the controls and readings among them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from bench.metrics import Metric
from bench.output.seeds import SeedRuns
from leaderboards.page.layout import named
from leaderboards.plans import SweepRun, every
from leaderboards.results import CommittedRun

OTHER = "other settings"


@dataclass(frozen=True)
class Board:
    """Lines to be compared with each other."""

    paper: str
    sweep: str
    source: str
    dataset: str
    setting: str
    lines: tuple[SeedRuns[CommittedRun], ...]

    @property
    def title(self) -> str:
        return f"{named(self.dataset)}, {self.setting.replace(';', ', ')}"

    @property
    def metric(self) -> Metric:
        return self.lines[0].metric

    @property
    def target(self) -> float:
        return self.lines[0].runs[0].result.target

    @property
    def scales(self) -> list[str]:
        found = {p.scale for line in self.lines for run in line.runs for p in run.plan if p.sweep == self.sweep}
        return sorted(found)


def boards(runs: Sequence[CommittedRun]) -> list[Board]:
    """A board per sweep, data set and setting; settings with one line only share one."""
    found: dict[tuple[object, ...], dict[int, CommittedRun]] = defaultdict(dict)
    for run in runs:
        for planned in run.plan:
            found[planned.key].setdefault(run.seed, run)
    groups: dict[tuple[str, str, str], list[SweepRun]] = defaultdict(list)
    for place in every():
        if place.key in found:
            groups[place.sweep.name, place.run.dataset, place.run.setting].append(place)
    shared: dict[tuple[str, str, str], list[tuple[SweepRun, bool]]] = defaultdict(list)
    for (sweep, dataset, setting), places in groups.items():
        alone = len(places) == 1
        key = sweep, dataset, OTHER if alone else setting
        shared[key] += [(place, alone) for place in places]
    return _without_twins([_board(key, places, found) for key, places in shared.items()])


def _board(
    key: tuple[str, str, str],
    places: Sequence[tuple[SweepRun, bool]],
    found: dict[tuple[object, ...], dict[int, CommittedRun]],
) -> Board:
    labels = [_label(place, alone, [p for p, _ in places]) for place, alone in places]
    lines: dict[str, SeedRuns[CommittedRun]] = {}
    for (place, _), label in zip(places, labels, strict=True):
        lines.setdefault(label, SeedRuns(label, found[place.key]))
    ordered = sorted(lines.values(), key=lambda line: -_merit(line))
    return Board(places[0][0].paper, key[0], places[0][0].sweep.source, key[1], key[2], tuple(ordered))


def _label(place: SweepRun, alone: bool, others: Sequence[SweepRun]) -> str:
    """The method; its setting where that tells lines apart; its grid point where several have the same name."""
    words = [named(place.run.method)]
    if alone:
        shared = set.intersection(*({*other.run.setting.split(";")} for other in others))
        own = [part for part in place.run.setting.split(";") if part not in shared]
        words += [", ".join(own)] if own else []
    twins = [other.run for other in others if other.cell == place.cell]
    if len(twins) > 1:
        common = set.intersection(*({*run.overrides} for run in twins))
        words += [word.removeprefix("algo.") for word in place.run.overrides if word not in common]
    return " · ".join(words)


def _without_twins(found: Sequence[Board]) -> list[Board]:
    """Two sweeps may share all their runs (FedLGA's Tables V and VI, FedLC's points on a curve): shown once."""
    seen, kept = set(), []
    for board in found:
        runs = frozenset(run.name for line in board.lines for run in line.runs)
        if (board.sweep.partition("/")[0], runs) not in seen:
            seen.add((board.sweep.partition("/")[0], runs))
            kept.append(board)
    return kept


def _merit(line: SeedRuns[CommittedRun]) -> float:
    return -math.inf if math.isnan(line.merit) else line.merit

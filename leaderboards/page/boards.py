"""What was measured, sweep by sweep: the runs behind the verdicts, the controls and readings among them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from bench.metrics import MB, mean_interval
from leaderboards.page.layout import named
from leaderboards.plans import PlannedRun, every
from leaderboards.results import Result

OTHER = "other settings"
Numbers = list[float]


@dataclass(frozen=True)
class Line:
    """The results of one run of a plan, one per seed."""

    label: str
    results: tuple[Result, ...]

    def column(self, name: str) -> list[list[float | None]]:
        """Per seed, as far as all seeds got; megabytes are all bytes so far."""
        rounds = min(len(result.rows["test_accuracy"]) for result in self.results)
        if name != "megabytes":
            return [result.rows[name][:rounds] for result in self.results]
        return [megabytes(result)[:rounds] for result in self.results]

    def numbers(self, key: str) -> Numbers:
        """Of the result, per seed; a number that is missing (diverged, never) is infinite."""
        values = (result.result.get(key) for result in self.results)
        return [math.inf if value is None else float(value) for value in values]

    def at_target(self, name: str) -> Numbers:
        """A column in the round that reaches the target, per seed; infinite: never."""
        columns = self.column(name)
        found = []
        for result, column in zip(self.results, columns, strict=True):
            reached = None if result.diverged else result.result["rounds_to_target"]
            value = column[reached - 1] if reached is not None and reached <= len(column) else None
            found.append(math.inf if value is None else value)
        return found


@dataclass(frozen=True)
class Board:
    """Lines to be compared with each other."""

    paper: str
    sweep: str
    source: str
    dataset: str
    setting: str
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        return f"{named(self.dataset)}, {self.setting.replace(';', ', ')}"

    @property
    def target(self) -> float:
        return float(self.lines[0].results[0].result["target"])

    @property
    def scales(self) -> list[str]:
        found = {
            p.scale for line in self.lines for result in line.results for p in result.plan if p.sweep == self.sweep
        }
        return sorted(found)


def megabytes(result: Result) -> list[float | None]:
    ways = (result.rows[name] for name in ("bytes_up", "bytes_down", "bytes_peer"))
    return [sum(value or 0 for value in values) / MB for values in zip(*ways, strict=True)]


def boards(results: Sequence[Result]) -> list[Board]:
    """A board per sweep, data set and setting; settings with one line only share one."""
    found: dict[tuple[object, ...], dict[int, Result]] = defaultdict(dict)
    for result in results:
        for planned in result.plan:
            found[planned.sweep, *planned.cell, planned.overrides].setdefault(result.seed, result)
    groups: dict[tuple[str, str, str], list[PlannedRun]] = defaultdict(list)
    for place in every():
        if place.key in found:
            groups[place.sweep.name, place.run.dataset, place.run.setting].append(place)
    shared: dict[tuple[str, str, str], list[tuple[PlannedRun, bool]]] = defaultdict(list)
    for (sweep, dataset, setting), places in groups.items():
        alone = len(places) == 1
        key = sweep, dataset, OTHER if alone else setting
        shared[key] += [(place, alone) for place in places]
    return _without_twins([_board(key, places, found) for key, places in shared.items()])


def _board(
    key: tuple[str, str, str],
    places: Sequence[tuple[PlannedRun, bool]],
    found: dict[tuple[object, ...], dict[int, Result]],
) -> Board:
    labels = [_label(place, alone, [p for p, _ in places]) for place, alone in places]
    lines: dict[str, Line] = {}
    for (place, _), label in zip(places, labels, strict=True):
        by_seed = found[place.key]
        lines.setdefault(label, Line(label, tuple(by_seed[seed] for seed in sorted(by_seed))))
    ordered = sorted(lines.values(), key=lambda line: -_accuracy(line))
    return Board(places[0][0].paper, key[0], places[0][0].sweep.source, key[1], key[2], tuple(ordered))


def _label(place: PlannedRun, alone: bool, others: Sequence[PlannedRun]) -> str:
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
        runs = frozenset(result.name for line in board.lines for result in line.results)
        if (board.sweep.partition("/")[0], runs) not in seen:
            seen.add((board.sweep.partition("/")[0], runs))
            kept.append(board)
    return kept


def _accuracy(line: Line) -> float:
    values = [value for value in line.numbers("final_accuracy") if math.isfinite(value)]
    return mean_interval(values)[0] if values else -math.inf

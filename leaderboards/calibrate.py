"""What scale=cpu is: which of its declared points is taken, by the rule of docs/ledger.md."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from bench.output.tables import aligned
from leaderboards import results
from leaderboards.measure import Shelf
from leaderboards.papers import LedgerError, papers
from leaderboards.plans import cell
from leaderboards.results import CommittedRun
from sweeps.readings import CHOOSING
from sweeps.scaled import HELD_OUT, SEED, TEST, Scaled, scaled

WINDOW = 0.05  # of the rounds, up to the one that is meant: an accuracy is their mean
ENOUGH = 0.8  # of the printed accuracy
TAIL = 0.25  # of the rounds, the last ones: there a curve is a line and what it jumps by


@dataclass(frozen=True)
class Tried:
    """A point that FedAvg was run at."""

    at_share: float  # accuracy at the share of rounds at which the paper's FedAvg reaches its target
    last: float
    jump: float  # of a single evaluation: its standard deviation around the line

    @property
    def level(self) -> float:
        return self.at_share / self.last


def tried(one: Scaled, paper: str, shelf: Shelf) -> dict[str, Tried | None]:
    """What was run of the points; None: it diverged, on whatever images."""
    found: dict[str, Tried | None] = {}
    for name in one.points:
        held_out, tested = (_runs(one, name, images, paper, shelf) for images in (HELD_OUT, TEST))
        if SEED in held_out:
            diverged = any(run.result.has_diverged for run in (*held_out.values(), *tested.values()))
            found[name] = None if diverged else _read(held_out[SEED], one.share)
    return found


def _runs(one: Scaled, name: str, images: str, paper: str, shelf: Shelf) -> dict[int, CommittedRun]:
    """By seed."""
    points = shelf.points(cell(paper, "fedavg", one.dataset, one.setting(name, images)), None)
    return {seed: found.run for point in points for seed, found in point.by_seed.items()}


def target(one: Scaled, paper: str, shelf: Shelf) -> float | None:
    """Of the point that was taken, in whole percent; None: it has not been run."""
    runs = _runs(one, one.chosen, TEST, paper, shelf) if one.chosen else {}
    if not {*CHOOSING} <= runs.keys():
        return None
    return round(statistics.fmean(_read(runs[seed], one.share).at_share for seed in CHOOSING), 2)


def _read(run: CommittedRun, share: float) -> Tried:
    accuracies = run.rows["test_accuracy"]

    def known(first: float, last: float) -> list[float]:
        rounds = slice(*(round(part * len(accuracies)) for part in (first, last)))
        return [value for value in accuracies[rounds] if value is not None]

    at_share, end = (statistics.fmean(known(part - WINDOW, part)) for part in (share, 1.0))
    return Tried(at_share, end, _around_a_line(known(1 - TAIL, 1)))


def _around_a_line(values: list[float]) -> float:
    times = range(len(values))
    line = statistics.linear_regression(times, values)
    squares = ((value - line.intercept - line.slope * t) ** 2 for t, value in zip(times, values, strict=True))
    return math.sqrt(math.fsum(squares) / (len(values) - 2))


def blur(ended: Mapping[str, Tried]) -> float:
    """The standard deviation of a printed ratio: two evaluations of a single run."""
    return math.sqrt(2) * statistics.median(point.jump / point.last for point in ended.values())


def taken(one: Scaled, found: Mapping[str, Tried | None]) -> str | None:
    """None: not every point has been run, or none can be taken."""
    if len(found) < len(one.points):
        return None
    ended = {name: point for name, point in found.items() if point is not None}
    able = {name: point for name, point in ended.items() if not one.tenfold or one.at_tenfold(name) in ended}
    good = {name: point for name, point in able.items() if point.last >= ENOUGH * (one.printed or 0)} or able
    return max(_near(one, good), key=lambda name: good[name].last, default=None)


def _near(one: Scaled, good: Mapping[str, Tried]) -> list[str]:
    """The points whose shape is the printed one as far as a single run can tell; all where none is printed."""
    level = one.level
    if level is None or not good:
        return [*good]
    off = {name: abs(point.level - level) for name, point in good.items()}
    return [name for name in good if off[name] <= min(off.values()) + blur(good)]


def check() -> None:
    """What scale=cpu sets is what the committed runs choose."""
    shelf = Shelf(results.committed())
    for paper in papers():
        for one in scaled(paper):
            best = taken(one, tried(one, paper, shelf))
            if best != one.chosen:
                raise LedgerError(
                    f"scale=cpu of {paper} on {one.dataset}: the committed runs choose {best}, and {one.chosen} is set."
                )


def overview(paper: str, shelf: Shelf) -> list[str]:
    """The points of a paper, for people."""
    return [_shown(one, tried(one, paper, shelf)) for one in scaled(paper)]


def _shown(one: Scaled, found: Mapping[str, Tried | None]) -> str:
    rows = [["point", f"at {one.share:.3f} of the rounds", "last", "ratio"]]
    for name in one.points:
        point = found.get(name)
        numbers = ["diverged" if name in found else "not run", "", ""]
        if point is not None:
            numbers = [f"{100 * point.at_share:.2f} %", f"{100 * point.last:.2f} %", f"{point.level:.3f}"]
        rows.append([f"{'*' if name == one.chosen else ' '} {name}", *numbers])
    printed = "no shape" if one.level is None or one.printed is None else f"{100 * one.printed:.2f} %, {one.level:.3f}"
    head = f"scale=cpu on {one.dataset}, FedAvg on held-out images; printed: {printed}"
    if one.level is not None and (ended := {name: point for name, point in found.items() if point is not None}):
        head += f" +- {blur(ended):.3f}, a single run"
    return "\n".join([head, *aligned(rows, words=(0,))])

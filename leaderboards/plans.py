"""Claims and the sweeps that stand for them: which command re-runs a claim, or why none can here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from leaderboards.ledger import Claim
from leaderboards.papers import special
from sweeps.plan import PlannedRun, Sweep, sweeps
from sweeps.readings import CHOOSING, answered, open_for

REPORTED = ("target", "t")  # they name what is read off a run, not another run


@dataclass(frozen=True)
class Cell:
    """What is run once per seed, and may stand in several tables."""

    paper: str
    method: str
    dataset: str
    setting: str  # canonical


@dataclass(frozen=True)
class SweepRun:
    """A run of a sweep's plan."""

    sweep: Sweep
    run: PlannedRun

    @property
    def paper(self) -> str:
        return self.sweep.name.partition("/")[0]

    @property
    def cell(self) -> Cell:
        return cell(self.paper, self.run.method, self.run.dataset, self.run.setting)

    @property
    def counts(self) -> bool:
        """Is it a run that may decide a verdict: in the reading that counts, on judged seeds?"""
        chosen = tuple(question.chosen for question in open_for(self.paper, self.run.method, self.run.dataset))
        return self.sweep.seeds != CHOOSING and answered(self.paper, self.run) == chosen

    @property
    def key(self) -> tuple[str, str, str, str, tuple[str, ...]]:
        return self.sweep.name, self.run.method, self.run.dataset, self.run.setting, self.run.overrides


def cell(paper: str, method: str, dataset: str, setting: str) -> Cell:
    return Cell(paper, method, dataset, canonical(paper, setting))


def cell_of(claim: Claim, method: str | None = None, setting: str | None = None) -> Cell:
    """A claim's own, or that of another method or setting."""
    return cell(claim.paper, method or claim.method, claim.dataset, setting or claim.setting)


def canonical(paper: str, setting: str) -> str:
    """Settings that mean the same runs, written the same way."""
    parts = [part for part in setting.split(";") if part.partition("=")[0] not in REPORTED]
    return ";".join(special(paper).canonical(parts))


@cache
def every() -> tuple[SweepRun, ...]:
    return tuple(SweepRun(sweep, run) for sweep in sweeps().values() for run in sweep.runs)


@cache
def _by_cell() -> dict[Cell, list[SweepRun]]:
    found: dict[Cell, list[SweepRun]] = {}
    for place in every():
        found.setdefault(place.cell, []).append(place)
    return found


def places(wanted: Cell, where: str | None = None) -> list[SweepRun]:
    """The runs that stand for a cell; only those of the sweep that covers `where`, if one does."""
    found = _by_cell().get(wanted, [])
    return [place for place in found if where in place.sweep.covers] or found


def standing_for(wanted: Cell, where: str | None = None) -> SweepRun | None:
    """The one that is to be run for it: in the reading that counts, with no grid around it if there is such a run."""
    counting = (place for place in places(wanted, where) if place.counts)
    return min(counting, key=lambda place: len(place.sweep.grids[place.run.label]), default=None)

"""Claims and the sweeps that stand for them: which command re-runs a claim, or why none can here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from leaderboards.ledger import Claim
from sweeps.plan import PlannedRun, Sweep, sweeps

TESTBED = (
    "measured on a testbed of Jetson boards over Wi-Fi at three distances, which is not here; devices=level1 to "
    "level3 simulate its ratios of speed, not its seconds"
)
IMAGE100 = "100 classes of ImageNet, which the paper does not name and whose images are not available here"
AVERAGE = "an average over curves whose numbers the paper does not print"
AVERAGES = ("time_reduction_mean", "accuracy_gain_mean", "accuracy_gain_at_most", "accuracy_gain_approx")
# what FedLGA's settings leave out (Sec. VI-A3); with E = 5 its tau_max = 0.8E is the default E - 1
FEDLGA = {"rho": "0.5", "tau_max": "E-1", "E": "5", "K": "10"}
REPORTED = ("target", "t")  # they name what is read off a run, not another run


@dataclass(frozen=True)
class Cell:
    """What is run once per seed, and may stand in several tables."""

    paper: str
    method: str
    dataset: str
    setting: str  # canonical


@dataclass(frozen=True)
class Place:
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
    def key(self) -> tuple[str, str, str, str, tuple[str, ...]]:
        return self.sweep.name, self.run.method, self.run.dataset, self.run.setting, self.run.overrides


def cell(paper: str, method: str, dataset: str, setting: str) -> Cell:
    return Cell(paper, method, dataset, canonical(paper, setting))


def canonical(paper: str, setting: str) -> str:
    """Settings that mean the same runs, written the same way."""
    parts = [part for part in setting.split(";") if part.partition("=")[0] not in REPORTED]
    if paper != "fedlga":
        return ";".join(parts)
    given = dict(part.split("=", 1) for part in parts if "=" in part)
    if given.get("tau_max") == "0.8E" and given.get("E", "5") == "5":
        del given["tau_max"]
    words = [part for part in parts if "=" not in part]
    return ";".join([*(f"{key}={value}" for key, value in (FEDLGA | given).items()), *words])


@cache
def every() -> tuple[Place, ...]:
    return tuple(Place(sweep, run) for sweep in sweeps().values() for run in sweep.runs)


@cache
def _by_cell() -> dict[Cell, list[Place]]:
    found: dict[Cell, list[Place]] = {}
    for place in every():
        found.setdefault(place.cell, []).append(place)
    return found


def places(wanted: Cell, where: str | None = None) -> list[Place]:
    """The runs that stand for a cell; only those of the sweep that covers `where`, if one does."""
    found = _by_cell().get(wanted, [])
    return [place for place in found if where in place.sweep.covers] or found


def obstacle(claim: Claim) -> str | None:
    """Why a claim cannot be run here, if it cannot."""
    if claim.dataset == "image100":
        return IMAGE100
    if "testbed" in claim.setting:
        return TESTBED
    return AVERAGE if claim.metric in AVERAGES else None

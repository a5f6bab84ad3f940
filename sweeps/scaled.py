"""scale=cpu, calibrated: points that FedAvg alone is run at, of which a rule takes one. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from sweeps.plan import PlannedRun, cells, merged
from sweeps.readings import CALIBRATION, declared

HELD_OUT, TEST = "held-out", "test"
IMAGES = {HELD_OUT: "val_fraction=0.1", TEST: ""}  # a point is taken on the first, its target on the second
SEED = CALIBRATION  # of every point


@dataclass(frozen=True)
class Scaled:
    """What scale=cpu sets on one data set. Every point sets the same keys."""

    dataset: str
    target: float  # the paper's
    share: float  # of its rounds, at which the paper's FedAvg reaches it
    printed: float  # its last accuracy
    points: Mapping[str, str]  # name -> overrides
    chosen: str | None = None  # None: nothing has been run to decide it

    @property
    def level(self) -> float:
        """The target, relative to the last accuracy."""
        return self.target / self.printed

    @property
    def words(self) -> str:
        """Of the point that was taken."""
        assert self.chosen is not None
        return self.points[self.chosen]

    def runs(self, paper: str, images: str) -> tuple[PlannedRun, ...]:
        more = f"target={self.target} {IMAGES[images]}"
        settings = {self.setting(name, images): f"{words} {more}" for name, words in self.points.items()}
        found = cells(paper, (self.dataset,), settings, {"fedavg": "algo=fedavg"})
        return tuple(replace(run, overrides=merged(run.overrides, "scale=cpu")) for run in found)

    def setting(self, name: str, images: str) -> str:
        return f"scale=cpu;{name};{images} images"


@cache
def scaled(paper: str) -> tuple[Scaled, ...]:
    """SCALED in sweeps/<paper>.py."""
    found: tuple[Scaled, ...] = declared(paper, "SCALED")
    return found

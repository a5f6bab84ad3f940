"""scale=cpu, calibrated: points that FedAvg alone is run at, of which a rule takes one. No torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from sweeps.plan import PlannedRun, Sweep, cells, merged, pairs
from sweeps.readings import CALIBRATION, CHOOSING, declared

HELD_OUT, TEST = "held-out", "test"
IMAGES = {HELD_OUT: "val_fraction=0.1", TEST: ""}  # a point is taken on the first, its target on the second
SEED = CALIBRATION  # of every point


@dataclass(frozen=True)
class Scaled:
    """What scale=cpu sets on one data set. Every point sets the same keys."""

    dataset: str
    points: Mapping[str, str]  # name -> overrides
    share: float = 0.75  # of its rounds, at which the paper's FedAvg reaches its target; ours where it prints none
    target: float | None = None  # the paper's
    printed: float | None = None  # its last accuracy
    tenfold: bool = False  # a method may step with ten times the rate
    chosen: str | None = None  # None: nothing has been run to decide it

    @property
    def level(self) -> float | None:
        """The target, relative to the last accuracy; None: the paper prints no shape of FedAvg's curve."""
        return None if self.target is None or self.printed is None else self.target / self.printed

    @property
    def words(self) -> str:
        """Of the point that was taken."""
        assert self.chosen is not None
        return self.points[self.chosen]

    def at_tenfold(self, name: str) -> str | None:
        """The point at ten times the rate of another one."""
        given = pairs(self.points[name].split())
        wanted = given | {"lr": f"{10 * float(given['lr']):g}"}
        return next((other for other, words in self.points.items() if pairs(words.split()) == wanted), None)

    def runs(self, paper: str, images: str) -> tuple[PlannedRun, ...]:
        more = " ".join([f"target={self.target}"] * (self.target is not None) + [IMAGES[images]])
        settings = {self.setting(name, images): f"{words} {more}" for name, words in self.points.items()}
        found = cells(paper, (self.dataset,), settings, {"fedavg": "algo=fedavg"})
        return tuple(replace(run, overrides=merged(run.overrides, "scale=cpu")) for run in found)

    def setting(self, name: str, images: str) -> str:
        return f"scale=cpu;{name};{images} images"


def rates(size: str, plain: Sequence[float], momentum: Sequence[float] = ()) -> dict[str, str]:
    """Points of one size that differ in the rate, without and with momentum."""
    return {f"rate {lr}": f"{size} lr={lr} momentum=0" for lr in plain} | {
        f"rate {lr}, momentum": f"{size} lr={lr} momentum=0.9" for lr in momentum
    }


def calibrated(paper: str, found: Sequence[Scaled], about: str) -> tuple[Sweep, Sweep]:
    """<paper>/scale and <paper>/target."""
    runs = {images: tuple(run for one in found for run in one.runs(paper, images)) for images in IMAGES}
    scale = Sweep(
        name=f"{paper}/scale",
        source=f"Ours: what scale=cpu is, one seed of FedAvg alone on held-out training images: {about}",
        goal="final",
        runs=runs[HELD_OUT],
        seeds=(SEED,),
    )
    target = Sweep(
        name=f"{paper}/target",
        source="Ours: the target of scale=cpu, by FedAvg on calibration seeds and test images; to be run for the point"
        " that was taken (setting=), which is out if it diverges",
        runs=runs[TEST],
        seeds=CHOOSING,
    )
    return scale, target


@cache
def scaled(paper: str) -> tuple[Scaled, ...]:
    """SCALED in sweeps/<paper>.py."""
    found: tuple[Scaled, ...] = declared(paper, "SCALED")
    return found

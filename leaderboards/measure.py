"""What the committed results give for a claim: one number per seed, in the claim's unit; infinity is never."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.metrics import Metric
from bench.output.paces import measured_by
from bench.output.seeds import SeedNumbers, SeedRuns
from leaderboards import rivals
from leaderboards.ledger import Claim
from leaderboards.plans import Cell, cell_of, places
from leaderboards.reading import higher, raw
from leaderboards.results import CommittedRun, Planned
from leaderboards.seeds import WALL_CLOCK, judged_seeds
from sweeps.readings import CALIBRATION, Answers, Open, answered, open_for


@dataclass(frozen=True)
class Measured:
    """The results that stand for a claim and its number in each seed."""

    values: Mapping[int, float]
    results: tuple[CommittedRun, ...]
    scale: str  # the least of them
    deviations: tuple[str, ...]

    @property
    def last(self) -> float:
        """Rounds of its runs."""
        return max((run.result.rounds for run in self.results), default=0)


@dataclass(frozen=True)
class RunOfPlan:
    """A committed run, and one of the planned runs that it is."""

    run: CommittedRun
    planned: Planned

    @property
    def metric(self) -> Metric:
        return self.run.metric

    def number(self, key: str) -> float | None:
        return self.run.number(key)

    def goal(self, claim: Claim) -> float | None:
        """The accuracy that a claim's own words ask for; None: the run's own, which scale=cpu has instead."""
        return None if "target" in self.planned.differs else rivals.target(claim)


Point = SeedRuns[RunOfPlan]  # a cell in one reading


def numbers(point: Point, claim: Claim, metric: str, wanted: Cell) -> SeedNumbers:
    """In the claim's unit."""
    return point.each(lambda one: raw(one.run, claim, metric, wanted, goal=one.goal(claim)))


class Shelf:
    """Committed results by the runs of the plans they are runs of."""

    def __init__(self, runs: Sequence[CommittedRun]) -> None:
        self._found: dict[tuple[object, ...], dict[int, RunOfPlan]] = defaultdict(dict)
        for run in runs:
            for planned in run.plan:
                old = self._found[planned.key].get(run.seed)
                if old is None or _rank(planned.scale) < _rank(old.planned.scale):
                    self._found[planned.key][run.seed] = RunOfPlan(run, planned)

    def points(self, wanted: Cell, where: str | None) -> list[Point]:
        """Of every run of the plans that stands for a cell; of equal ones the first."""
        found: dict[tuple[str, ...], Point] = {}
        for place in places(wanted, where):
            if place.key in self._found:
                names = tuple(sorted(one.run.name for one in self._found[place.key].values()))
                found.setdefault(names, Point(place.run.method, self._found[place.key]))
        return list(found.values())

    def read(self, wanted: Cell, where: str, answers: Answers) -> dict[int, RunOfPlan]:
        """The runs of a cell in one reading, by seed."""
        found: dict[int, RunOfPlan] = {}
        for place in places(wanted, where):
            runs = self._found.get(place.key)
            if runs and answered(wanted.paper, place.run) == answers:
                for seed, one in runs.items():
                    if seed not in found or _rank(one.planned.scale) < _rank(found[seed].planned.scale):
                        found[seed] = one
        return found


@dataclass(frozen=True)
class View:
    """How a claim is looked at: in the readings that count, unless one is asked for; by judged seeds, or by all."""

    shelf: Shelf
    asked: Mapping[Open, str] = field(default_factory=dict)  # question -> the reading that takes the chosen one's place
    seeds: Callable[[Cell, str, int], bool] = lambda cell, metric, seed: seed in judged_seeds(cell, metric)

    def point(self, wanted: Cell, where: str, metric: str) -> Point | None:
        asked = open_for(wanted.paper, wanted.method, wanted.dataset)
        answers = tuple(self.asked.get(question, question.chosen) for question in asked)
        found = self.shelf.read(wanted, where, answers)
        kept = {seed: one for seed, one in found.items() if self.seeds(wanted, metric, seed)}
        if metric in WALL_CLOCK:
            kept = {seed: one for seed, one in kept.items() if one.run.is_idle}
        return Point(wanted.method, dict(sorted(kept.items()))) if kept else None


def judged(shelf: Shelf) -> View:
    return View(shelf)


def calibration(shelf: Shelf, asked: Mapping[Open, str] | None = None) -> View:
    return View(shelf, asked or {}, lambda cell, metric, seed: seed >= CALIBRATION)


def anyhow(shelf: Shelf, asked: Mapping[Open, str]) -> View:
    """By all seeds there are."""
    return View(shelf, asked, lambda cell, metric, seed: True)


def measure(claim: Claim, view: View, metric: str | None = None) -> Measured | None:
    """None if a run that the claim needs is missing. `metric`: another number of the same runs."""
    if (pair := rivals.compared(claim)) is not None:
        return _comparison(claim, *pair, view)
    if claim.method == "best method":
        return _best_of(claim, view)
    metric, mine = metric or claim.metric, cell_of(claim)
    if (point := view.point(mine, claim.where, metric)) is None:
        return None
    values = numbers(point, claim, metric, mine)
    if (stick := rivals.yardstick(claim)) is not None:
        base = cell_of(stick)
        if (other := view.point(base, claim.where, metric)) is None:
            return None
        values = paired(point, other, claim, metric, mine, base, lambda a, b: a / b)
        return _made(values.times(rivals.operations(claim)), [point, other])
    if metric == "accuracy_at_time":
        values = _at_time(claim, point, view)
    return _made(values, [point])


def ordered(claim: Claim, view: View) -> list[tuple[float, float]]:
    """The claim's and its rival's numbers, for the seeds that both have."""
    other = rivals.rival(claim)
    if other is None:
        return []
    mine, theirs = cell_of(claim), cell_of(other)
    a, b = view.point(mine, claim.where, claim.metric), view.point(theirs, other.where, other.metric)
    if a is None or b is None:
        return []
    if claim.metric == "accuracy_at_time":
        first, second = _at_time(claim, a, view), _at_time(other, b, view)
    else:
        factor = rivals.operations(claim) / rivals.operations(other)
        first = numbers(_of_one_batch(a, b, claim.metric), claim, claim.metric, mine).times(factor)
        second = numbers(b, other, other.metric, theirs)
    return list(first.common(second).values())


def paired(
    a: Point, b: Point, claim: Claim, metric: str, mine: Cell, theirs: Cell, formula: Callable[[float, float], float]
) -> SeedNumbers:
    """The formula seed by seed; one that reaches the target where the other does not is infinitely better."""

    def compared(x: float, y: float) -> float:
        if math.isinf(x) and math.isinf(y):
            return math.nan
        if math.isinf(x) or math.isinf(y):
            return math.inf if math.isinf(x) != higher(claim.metric) else -math.inf
        return formula(x, y)

    first, second = numbers(_of_one_batch(a, b, metric), claim, metric, mine), numbers(b, claim, metric, theirs)
    if claim.is_ordinal:  # which is ahead was looked at, also where neither reaches the target
        return SeedNumbers({seed: compared(*pair) for seed, pair in first.common(second).items()})
    return first.paired(second, compared)


def _of_one_batch(a: Point, b: Point, metric: str) -> Point:
    """The runs of `a` that can be compared with those of `b`. Seconds: of one batch of runs only."""
    if metric not in WALL_CLOCK:
        return a
    batch = {seed: one.run.batch for seed, one in b.by_seed.items()}
    return Point(a.label, {seed: one for seed, one in a.by_seed.items() if batch.get(seed) == one.run.batch})


def _cost(point: Point, claim: Claim, metric: str, wanted: Cell) -> float:
    """Its mean; less is better."""
    return (-1 if higher(metric) else 1) * numbers(point, claim, metric, wanted).mean


def _comparison(claim: Claim, mine: Cell, others: Sequence[Cell], view: View) -> Measured | None:
    assert claim.definition.comparison is not None, claim.id
    metric, formula = claim.definition.comparison
    first = view.point(mine, claim.where, metric)
    found = [(other, point) for other in others if (point := view.point(other, claim.where, metric)) is not None]
    if first is None or len(found) < len(others):
        return None
    other, point = min(found, key=lambda pair: _cost(pair[1], claim, metric, pair[0]))
    return _made(paired(first, point, claim, metric, mine, other, formula), [first, point])


def _best_of(claim: Claim, view: View) -> Measured | None:
    """The best of all methods, seed by seed."""
    points = [
        (wanted, found)
        for wanted in rivals.needs(claim)
        if (found := view.point(wanted, claim.where, claim.metric)) is not None
    ]
    if len(points) < len(rivals.needs(claim)):
        return None
    each = [numbers(point, claim, claim.metric, wanted) for wanted, point in points]
    best = each[0]
    for other in each[1:]:
        best = best.paired(other, max)
    return _made(best, [point for _, point in points])


def _at_time(claim: Claim, point: Point, view: View) -> SeedNumbers:
    """The accuracy last measured by a moment, which FedAvg's own seconds translate to this clock."""
    stick, seconds = rivals.calibration(claim), rivals.moment(claim)
    if stick is None or seconds is None:
        return SeedNumbers({})
    base = cell_of(stick)
    found = view.point(base, stick.where, stick.metric)
    ours = numbers(found, stick, stick.metric, base).known.by_seed if found else {}
    return SeedNumbers(
        {
            seed: _accuracy_by(one.run, seconds * ours[seed] / stick.number)
            for seed, one in sorted(point.by_seed.items())
            if seed in ours
        }
    )


def _accuracy_by(run: CommittedRun, seconds: float) -> float:
    """Before the first evaluation that of chance."""
    found = measured_by(run, "virtual_seconds", seconds)
    return 1 / int(run.result.data["classes"]) if found is None else found


def _made(found: SeedNumbers, points: Sequence[Point]) -> Measured | None:
    """None if no seed has what it takes."""
    if not found.by_seed:
        return None
    values = {seed: found.by_seed[seed] for seed in sorted(found.by_seed)}
    used = [point.by_seed[seed] for point in points for seed in values]
    scale = max((one.planned.scale for one in used), key=_rank)
    deviations = sorted({text for one in used for text in deviations_of(one.run, one.planned)})
    unique = {one.run.name: one.run for one in used}
    return Measured(values, tuple(unique.values()), scale, tuple(deviations))


def _rank(scale: str) -> int:
    return {"paper": 0, "cpu": 1}.get(scale, 2)


def deviations_of(run: CommittedRun, planned: Planned) -> list[str]:
    """In words: where a run departs from its plan, and its data from the published set."""
    texts = [f"{key}={ours} instead of {plan}" for key, (plan, ours) in planned.differs.items()]
    if note := run.result.data.get("deviation"):
        texts.append(f"data: {note}")
    if run.result.has_diverged:
        texts.append(f"seed {run.seed} diverged")
    return texts

"""What the committed results give for a claim: one number per seed, in the claim's unit; infinity is never."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.output.seeds import SeedNumbers, SeedRuns
from leaderboards import rivals
from leaderboards.ledger import Claim
from leaderboards.plans import Cell, cell_of, places
from leaderboards.reading import accuracy_by, higher, raw
from leaderboards.results import CommittedRun, Planned


@dataclass(frozen=True)
class Measured:
    """The results that stand for a claim and its number in each seed."""

    values: Mapping[int, float]
    results: tuple[CommittedRun, ...]
    scale: str  # the least of them
    deviations: tuple[str, ...]
    points: int = 1  # of the grid that the method's cell is the best of


@dataclass(frozen=True)
class RunOfPlan:
    """A committed run, and one of the planned runs that it is."""

    run: CommittedRun
    planned: Planned

    def number(self, key: str) -> float | None:
        return self.run.number(key)


Point = SeedRuns[RunOfPlan]  # of the grid that a method's best is taken from


def numbers(point: Point, claim: Claim, metric: str, wanted: Cell) -> SeedNumbers:
    """In the claim's unit."""
    return point.each(lambda one: raw(one.run, claim, metric, wanted))


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

    def best(self, wanted: Cell, claim: Claim, metric: str) -> tuple[Point, int] | None:
        """The grid point with the most seeds and the best mean; and of how many."""
        found = self.points(wanted, claim.where)
        if not found:
            return None
        most = max(map(len, found))
        full = [point for point in found if len(point) == most]
        return min(full, key=lambda point: _cost(point, claim, metric, wanted)), len(found)


def measure(claim: Claim, shelf: Shelf) -> Measured | None:
    """None if a run that the claim needs is missing."""
    if (pair := rivals.compared(claim)) is not None:
        return _comparison(claim, *pair, shelf)
    if claim.method == "best method":
        return _best_of(claim, shelf)
    mine = cell_of(claim)
    if (found := shelf.best(mine, claim, claim.metric)) is None:
        return None
    point, count = found
    values = numbers(point, claim, claim.metric, mine)
    if (stick := rivals.yardstick(claim)) is not None:
        base = cell_of(stick)
        if (other := shelf.best(base, claim, claim.metric)) is None:
            return None
        values = paired(point, other[0], claim, claim.metric, mine, base, lambda a, b: a / b)
        return _made(values, [point, other[0]], count)
    if claim.metric == "accuracy_at_time":
        values = _at_time(claim, point, shelf)
    return _made(values, [point], count)


def ordering(claim: Claim, shelf: Shelf) -> list[tuple[float, float]]:
    """The claim's and its rival's numbers, for the seeds that both have."""
    other = rivals.rival(claim)
    if other is None:
        return []
    sides = []
    for side in (claim, other):
        wanted = cell_of(side)
        if (found := shelf.best(wanted, side, side.metric)) is None:
            return []
        sides.append((found[0], wanted))
    (a, mine), (b, theirs) = sides
    if claim.metric == "accuracy_at_time":
        first, second = _at_time(claim, a, shelf), _at_time(other, b, shelf)
    else:
        first = numbers(_of_one_batch(a, b, claim.metric), claim, claim.metric, mine)
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

    both = numbers(_of_one_batch(a, b, metric), claim, metric, mine)
    return both.paired(numbers(b, claim, metric, theirs), compared)


def _of_one_batch(a: Point, b: Point, metric: str) -> Point:
    """The runs of `a` that can be compared with those of `b`. Seconds: of one batch of runs only."""
    if metric not in ("seconds_per_round", "seconds_to_target"):
        return a
    batch = {seed: one.run.batch for seed, one in b.by_seed.items()}
    return Point(a.label, {seed: one for seed, one in a.by_seed.items() if batch.get(seed) == one.run.batch})


def _cost(point: Point, claim: Claim, metric: str, wanted: Cell) -> float:
    """Its mean; less is better."""
    return (-1 if higher(metric) else 1) * numbers(point, claim, metric, wanted).mean


def _comparison(claim: Claim, mine: Cell, others: Sequence[Cell], shelf: Shelf) -> Measured | None:
    assert claim.definition.comparison is not None, claim.id
    metric, formula = claim.definition.comparison
    first = shelf.best(mine, claim, metric)
    found = [(other, best[0]) for other in others if (best := shelf.best(other, claim, metric)) is not None]
    if first is None or len(found) < len(others):
        return None
    other, point = min(found, key=lambda pair: _cost(pair[1], claim, metric, pair[0]))
    return _made(paired(first[0], point, claim, metric, mine, other, formula), [first[0], point], first[1])


def _best_of(claim: Claim, shelf: Shelf) -> Measured | None:
    """The best of all methods, seed by seed."""
    points = [
        (wanted, found[0])
        for wanted in rivals.needs(claim)
        if (found := shelf.best(wanted, claim, claim.metric)) is not None
    ]
    if len(points) < len(rivals.needs(claim)):
        return None
    each = [numbers(point, claim, claim.metric, wanted) for wanted, point in points]
    best = each[0]
    for other in each[1:]:
        best = best.paired(other, max)
    return _made(best, [point for _, point in points], 1)


def _at_time(claim: Claim, point: Point, shelf: Shelf) -> SeedNumbers:
    """The accuracy last measured by a moment, which FedAvg's own seconds translate to this clock."""
    stick, seconds = rivals.calibration(claim), rivals.moment(claim)
    if stick is None or seconds is None:
        return SeedNumbers({})
    base = cell_of(stick)
    found = shelf.best(base, stick, stick.metric)
    ours = numbers(found[0], stick, stick.metric, base).known.by_seed if found else {}
    return SeedNumbers(
        {
            seed: accuracy_by(one.run, seconds * ours[seed] / stick.number)
            for seed, one in sorted(point.by_seed.items())
            if seed in ours
        }
    )


def _made(found: SeedNumbers, points: Sequence[Point], count: int) -> Measured | None:
    """None if no seed has what it takes."""
    if not found.by_seed:
        return None
    values = {seed: found.by_seed[seed] for seed in sorted(found.by_seed)}
    used = [point.by_seed[seed] for point in points for seed in values]
    scale = max((one.planned.scale for one in used), key=_rank)
    deviations = sorted({text for one in used for text in deviations_of(one.run, one.planned)})
    unique = {one.run.name: one.run for one in used}
    return Measured(values, tuple(unique.values()), scale, tuple(deviations), count)


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

"""What the committed results give for a claim: one number per seed, in the claim's unit; infinity is never."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from leaderboards import rivals
from leaderboards.ledger import Claim
from leaderboards.plans import Cell, cell, places
from leaderboards.reading import accuracy_by, higher, raw, reader
from leaderboards.results import Planned, Result

Values = dict[int, float]  # seed -> number


@dataclass(frozen=True)
class Measured:
    """The results that stand for a claim and its number in each seed."""

    values: Values
    results: tuple[Result, ...]
    scale: str  # the least of them
    deviations: tuple[str, ...]
    points: int = 1  # of the grid that the method's cell is the best of


@dataclass(frozen=True)
class Point:
    """The results of one run of a plan, one per seed."""

    by_seed: Mapping[int, tuple[Result, Planned]]

    def values(self, number: Callable[[Result], float]) -> Values:
        return {seed: number(result) for seed, (result, _) in sorted(self.by_seed.items())}


class Shelf:
    """Committed results by the runs of the plans they are runs of."""

    def __init__(self, results: Sequence[Result]) -> None:
        self._found: dict[tuple[object, ...], dict[int, tuple[Result, Planned]]] = defaultdict(dict)
        for result in results:
            for planned in result.plan:
                key = planned.sweep, *planned.cell, planned.overrides
                old = self._found[key].get(result.seed)
                if old is None or _rank(planned.scale) < _rank(old[1].scale):
                    self._found[key][result.seed] = result, planned

    def points(self, wanted: Cell, where: str | None) -> list[Point]:
        """Of every run of the plans that stands for a cell; of equal ones the first."""
        found: dict[tuple[str, ...], Point] = {}
        for place in places(wanted, where):
            if place.key in self._found:
                names = tuple(sorted(result.name for result, _ in self._found[place.key].values()))
                found.setdefault(names, Point(self._found[place.key]))
        return list(found.values())

    def best(self, wanted: Cell, claim: Claim, metric: str) -> tuple[Point, int] | None:
        """The grid point with the most seeds and the best mean; and of how many."""
        found = self.points(wanted, claim.where)
        if not found:
            return None
        most = max(len(point.by_seed) for point in found)
        full = [point for point in found if len(point.by_seed) == most]
        sign = -1 if higher(metric) else 1

        def mean(point: Point) -> float:
            numbers = list(point.values(reader(claim, metric, wanted)).values())
            return sign * sum(numbers) / len(numbers)

        return min(full, key=mean), len(found)


def measure(claim: Claim, shelf: Shelf) -> Measured | None:
    """None if a run that the claim needs is missing."""
    if (pair := rivals.compared(claim)) is not None:
        return _comparison(claim, *pair, shelf)
    if claim.method == "best method":
        return _best_of(claim, shelf)
    mine = cell(claim.paper, claim.method, claim.dataset, claim.setting)
    if (found := shelf.best(mine, claim, claim.metric)) is None:
        return None
    point, count = found
    numbers = point.values(reader(claim, claim.metric, mine))
    if (stick := rivals.yardstick(claim)) is not None:
        base = cell(stick.paper, stick.method, stick.dataset, stick.setting)
        if (other := shelf.best(base, claim, claim.metric)) is None:
            return None
        numbers = paired(point, other[0], claim, claim.metric, mine, base, lambda a, b: a / b)
        return _made(numbers, [point, other[0]], count) if numbers else None
    if claim.metric == "accuracy_at_time":
        numbers = _at_time(claim, point, shelf)
    return _made(numbers, [point], count) if numbers else None


def ordering(claim: Claim, shelf: Shelf) -> tuple[Values, Values] | None:
    """The claim's and its rival's numbers, for the seeds that both have."""
    other = rivals.rival(claim)
    if other is None:
        return None
    sides = []
    for side in (claim, other):
        wanted = cell(side.paper, side.method, side.dataset, side.setting)
        if (found := shelf.best(wanted, side, side.metric)) is None:
            return None
        sides.append((found[0], wanted))
    (a, mine), (b, theirs) = sides
    seeds = [seed for seed in sorted(a.by_seed) if seed in b.by_seed and _comparable(a, b, seed, claim.metric)]
    first = {seed: raw(a.by_seed[seed][0], claim, claim.metric, mine) for seed in seeds}
    second = {seed: raw(b.by_seed[seed][0], other, other.metric, theirs) for seed in seeds}
    if claim.metric == "accuracy_at_time":
        first, second = _at_time(claim, a, shelf), _at_time(other, b, shelf)
    both = sorted(first.keys() & second.keys())
    return ({s: first[s] for s in both}, {s: second[s] for s in both}) if both else None


def paired(
    a: Point, b: Point, claim: Claim, metric: str, mine: Cell, theirs: Cell, formula: Callable[[float, float], float]
) -> Values:
    """The formula seed by seed; one that reaches the target where the other does not is infinitely better."""
    values = {}
    for seed in sorted(a.by_seed.keys() & b.by_seed.keys()):
        if not _comparable(a, b, seed, metric):
            continue
        x, y = raw(a.by_seed[seed][0], claim, metric, mine), raw(b.by_seed[seed][0], claim, metric, theirs)
        if math.isinf(x) or math.isinf(y):
            better = higher(claim.metric)
            values[seed] = math.inf if math.isinf(x) != better else -math.inf
            if math.isinf(x) and math.isinf(y):
                values[seed] = math.nan
        else:
            values[seed] = formula(x, y)
    return {seed: value for seed, value in values.items() if not math.isnan(value)}


def _comparable(a: Point, b: Point, seed: int, metric: str) -> bool:
    """Seconds: of one batch of runs only."""
    wall = metric in ("seconds_per_round", "seconds_to_target")
    return not wall or a.by_seed[seed][0].batch == b.by_seed[seed][0].batch


def _comparison(claim: Claim, mine: Cell, others: Sequence[Cell], shelf: Shelf) -> Measured | None:
    assert claim.definition.comparison is not None, claim.id
    metric, formula = claim.definition.comparison
    first = shelf.best(mine, claim, metric)
    found = [(other, best[0]) for other in others if (best := shelf.best(other, claim, metric)) is not None]
    if first is None or len(found) < len(others):
        return None
    sign = -1 if higher(metric) else 1

    def mean(pair: tuple[Cell, Point]) -> float:
        numbers = list(pair[1].values(reader(claim, metric, pair[0])).values())
        return sign * sum(numbers) / len(numbers)

    other, point = min(found, key=mean)
    values = paired(first[0], point, claim, metric, mine, other, formula)
    return _made(values, [first[0], point], first[1]) if values else None


def _best_of(claim: Claim, shelf: Shelf) -> Measured | None:
    """The best of all methods, seed by seed."""
    points = [
        (wanted, found[0])
        for wanted in rivals.needs(claim)
        if (found := shelf.best(wanted, claim, claim.metric)) is not None
    ]
    if len(points) < len(rivals.needs(claim)):
        return None
    each = [point.values(reader(claim, claim.metric, wanted)) for wanted, point in points]
    seeds = sorted(set.intersection(*(set(values) for values in each)))
    values = {seed: max(numbers[seed] for numbers in each) for seed in seeds}
    return _made(values, [point for _, point in points], 1) if values else None


def _at_time(claim: Claim, point: Point, shelf: Shelf) -> Values:
    """The accuracy last measured by a moment, which FedAvg's own seconds translate to this clock."""
    stick, seconds = rivals.calibration(claim), rivals.moment(claim)
    if stick is None or seconds is None:
        return {}
    base = cell(stick.paper, stick.method, stick.dataset, stick.setting)
    found = shelf.best(base, stick, stick.metric)
    values = {}
    for seed, (result, _) in sorted(point.by_seed.items()):
        if found is None or seed not in found[0].by_seed:
            continue
        ours = raw(found[0].by_seed[seed][0], stick, stick.metric, base)
        if math.isfinite(ours):
            values[seed] = accuracy_by(result, seconds * ours / stick.number)
    return values


def _made(values: Values, points: Sequence[Point], count: int) -> Measured:
    used = [point.by_seed[seed] for point in points for seed in values]
    scale = max((planned.scale for _, planned in used), key=_rank)
    deviations = sorted({text for pair in used for text in deviations_of(*pair)})
    unique = {result.name: result for result, _ in used}
    return Measured(values, tuple(unique.values()), scale, tuple(deviations), count)


def _rank(scale: str) -> int:
    return {"paper": 0, "cpu": 1}.get(scale, 2)


def deviations_of(result: Result, planned: Planned) -> list[str]:
    """In words: where a run departs from its plan, and its data from the published set."""
    texts = [f"{key}={ours} instead of {plan}" for key, (plan, ours) in planned.differs.items()]
    if note := result.result.get("data", {}).get("deviation"):
        texts.append(f"data: {note}")
    if result.diverged:
        texts.append(f"seed {result.seed} diverged")
    return texts

"""The rules of docs/ledger.md: when a number agrees, when it is another, and when an ordering shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from leaderboards.ledger import SLACK, Claim

ENOUGH = 3  # seeds, for any verdict
CORRECTED = 5  # pairs, from which on orderings are corrected for their number
LEVEL = 0.05
POINTS, GAIN, PERCENT, RELATIVE = 1.0, 1.5, 5.0, 0.10
BETTER, WORSE, TIE, UNCLEAR = "better", "worse", "tie", "unclear"


def margin(claim: Claim, claimed: float | None = None) -> float:
    """In the claim's unit; `claimed` is the printed number where it was turned into a ratio."""
    if "accuracy_gain" in claim.metric:
        return GAIN
    if "accuracy" in claim.metric:
        return POINTS / (1 if claim.unit.startswith("%") else 100)
    if claim.unit == "%":
        return PERCENT
    return RELATIVE * (claim.number if claimed is None else claimed)


@dataclass(frozen=True)
class Agreement:
    """Of a claimed number with ours; where neither holds, `why` says what is missing."""

    agrees: bool = False
    differs: bool = False
    why: str = ""


def agreement(
    claimed: float | None, values: Sequence[float], half: float, allowed: float, *, last: float, looks: int = 1
) -> Agreement:
    """Is the claimed number (None: never) what these seeds give, or shown to be another?

    `half`: how far it may have been rounded; `last`: rounds of a run, after which a target counts as missed; `looks`:
    how many numbers of a run may agree with the one that is printed.
    """
    n, missed = len(values), sum(map(math.isinf, values))
    if n < ENOUGH:
        return Agreement(why=f"{n} of at least {ENOUGH} seeds")
    if missed:
        if claimed is None and missed == n:
            return Agreement(agrees=True)
        return Agreement(why=f"censored: {missed} of {n} seeds never reach the target in {last:g} rounds")
    mean, deviation = mean_deviation(values)
    next_run = _t(1 - LEVEL / 2, n) * deviation * math.sqrt(1 + 1 / n)
    if claimed is None:
        return Agreement(differs=mean + next_run < last, why="every seed reaches the target")
    away = abs(mean - claimed)
    if away + _t(1 - LEVEL / looks, n) * deviation / math.sqrt(n) < allowed - SLACK:
        return Agreement(agrees=True)
    beyond = away - _t(1 - LEVEL / 2, n) * deviation / math.sqrt(n) > allowed + SLACK
    if beyond and away > next_run + half + SLACK:
        return Agreement(differs=True)
    if beyond:
        return Agreement(why="outside the margin, but a single run of ours may give it")
    needed = seeds_needed(deviation, allowed - away, 1 - LEVEL / looks)
    return Agreement(why="too noisy" + ("" if needed is None else f": {needed} seeds with this spread would do"))


def seeds_needed(deviation: float, room: float, level: float = 1 - LEVEL) -> int | None:
    """For an interval of that one-sided level that leaves no more than `room` on a side; None: over a thousand."""
    if room <= 0:
        return None
    return next((n for n in range(ENOUGH, 1001) if _t(level, n) * deviation / math.sqrt(n) <= room), None)


@dataclass(frozen=True)
class Ordering:
    """Of the first to the second over paired seeds: how likely chance alone makes them so different, or so equal."""

    pairs: int = 0  # that tell something: not those in which neither reaches the target
    mean: float = math.nan  # of the differences; infinite, or NaN: the target was missed on a side
    different: float = 1.0
    tied: float = 1.0
    corrected: bool = False

    def relation(self, allowed: float, more_is_better: bool) -> str:
        """better, worse, tie or unclear."""
        if self.different <= LEVEL and abs(self.mean) > allowed:
            return BETTER if (self.mean > 0) == more_is_better else WORSE
        return TIE if self.tied <= LEVEL else UNCLEAR


def ordering(differences: Iterable[float], allowed: float) -> Ordering:
    """By t tests; where the target was missed on one side of a pair, by signs alone, of pairs beyond the margin."""
    found = [value for value in differences if not math.isnan(value)]
    n = len(found)
    if n < ENOUGH:
        return Ordering(n)
    if not all(map(math.isfinite, found)):
        up, down = (sum(sign * value > allowed + SLACK for value in found) for sign in (1, -1))
        one_sided = max(up, down) == n
        return Ordering(n, math.copysign(math.inf, up - down), min(1.0, 2 * 0.5**n) if one_sided else 1.0)
    mean, deviation = mean_deviation(found)
    scale = max(deviation / math.sqrt(n), 1e-12)  # equal differences: no doubt is left
    different = 2 * _tail(abs(mean) / scale, n)
    return Ordering(n, mean, min(1.0, different), _tail((allowed - abs(mean)) / scale, n))


def holm(family: Sequence[Ordering]) -> list[Ordering]:
    """Orderings about one data set and metric, corrected for their number; those of few pairs stay as they are."""
    counted = [k for k, one in enumerate(family) if one.pairs >= CORRECTED]
    fixed = list(family)
    different, tied = (_stepped([getattr(family[k], name) for k in counted]) for name in ("different", "tied"))
    for place, k in enumerate(counted):
        fixed[k] = replace(family[k], different=different[place], tied=tied[place], corrected=True)
    return fixed


def _stepped(chances: Sequence[float]) -> list[float]:
    """Holm's: the smallest is multiplied by the number of tests, the next by one less, and none is below the last."""
    fixed, before = list(chances), 0.0
    for rank, k in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        before = fixed[k] = max(before, min(1.0, (len(chances) - rank) * chances[k]))
    return fixed


def difference(a: float, b: float, relative: bool) -> float:
    """Of one pair; never is later than every number, and two nevers tell nothing (NaN)."""
    if math.isinf(a) or math.isinf(b):
        return math.nan if a == b else a - b
    return (a - b) / b if relative else a - b


def paired_ordering(claim: Claim, pairs: Iterable[tuple[float, float]]) -> Ordering:
    """Rounds, seconds and bytes differ in proportion, accuracies in points."""
    relative = is_relative(claim)
    return ordering([difference(a, b, relative) for a, b in pairs], ordering_margin(claim))


def printed_relation(claim: Claim, other: Claim, more_is_better: bool) -> str:
    """Of two printed numbers: more than the margin apart, or a tie; two nevers: unclear."""
    a, b = (math.inf if c.value is None else c.value for c in (claim, other))
    return sign(difference(a, b, is_relative(claim)), ordering_margin(claim), more_is_better)


def sign(value: float, allowed: float, more_is_better: bool) -> str:
    """Of a single difference, as printed."""
    if math.isnan(value):
        return UNCLEAR
    if abs(value) <= allowed + SLACK:
        return TIE
    return BETTER if (value > 0) == more_is_better else WORSE


def is_relative(claim: Claim) -> bool:
    return "accuracy" not in claim.metric


def ordering_margin(claim: Claim) -> float:
    return RELATIVE if is_relative(claim) else margin(claim)


def mean_deviation(values: Sequence[float]) -> tuple[float, float]:
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _t(level: float, n: int) -> float:
    from scipy.special import stdtrit  # a third of a second

    return float(stdtrit(n - 1, level))


def _tail(t: float, n: int) -> float:
    from scipy.special import stdtr

    return float(stdtr(n - 1, -t))

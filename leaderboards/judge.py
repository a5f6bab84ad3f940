"""The rules of docs/ledger.md: when a number agrees and when an ordering shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from bench.metrics import mean_interval
from leaderboards.ledger import SLACK, Claim

ENOUGH = 3  # seeds
TOO_WIDE = 3  # margins: an interval with a larger half-width confirms nothing
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


def agrees(claimed: float | None, values: Sequence[float], half: float, allowed: float) -> bool:
    """Is the claimed number (None: never) what these seeds give? `half`: how far it may have been rounded."""
    if claimed is None:
        return all(math.isinf(value) for value in values)
    if not all(map(math.isfinite, values)):
        return False
    mean, width = mean_interval(values)
    if width is None or len(values) < ENOUGH or width > TOO_WIDE * allowed:
        return False
    return abs(mean - claimed) <= max(allowed, width + half) + SLACK


def difference(a: float, b: float, relative: bool) -> float:
    """Of one pair; never is later than every number."""
    if math.isinf(a) or math.isinf(b):
        return 0.0 if a == b else a - b
    return (a - b) / b if relative else a - b


def relation(differences: Sequence[float], allowed: float, more_is_better: bool) -> str:
    """Of the first to the second: better, worse, tie or unclear."""
    up, down = (BETTER, WORSE) if more_is_better else (WORSE, BETTER)
    if all(math.isfinite(value) for value in differences) and len(differences) >= ENOUGH:
        mean, width = mean_interval(differences)
        assert width is not None
        if abs(mean) > max(allowed, width):
            return up if mean > 0 else down
        return TIE if abs(mean) + width <= allowed + SLACK else UNCLEAR
    if all(value > allowed + SLACK for value in differences):
        return up
    if all(value < -allowed - SLACK for value in differences):
        return down
    return TIE if all(abs(value) <= allowed + SLACK for value in differences) else UNCLEAR


def paired_relation(claim: Claim, pairs: Iterable[tuple[float, float]], more_is_better: bool) -> str:
    """Rounds, seconds and bytes differ in proportion, accuracies in points."""
    relative = "accuracy" not in claim.metric
    differences = [difference(a, b, relative) for a, b in pairs]
    return relation(differences, RELATIVE if relative else margin(claim), more_is_better)


def printed_relation(claim: Claim, other: Claim, more_is_better: bool) -> str:
    a, b = (math.inf if c.value is None else c.value for c in (claim, other))
    return paired_relation(claim, [(a, b)], more_is_better)

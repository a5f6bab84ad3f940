"""Verdicts in words and figures, for tables and pages."""

from __future__ import annotations

import math

from bench.metrics import PLUS_MINUS, missed_text
from leaderboards.verdict import EXACT, MEASURED, Verdict, number

TIMES = "\N{MULTIPLICATION SIGN}"


def printed(v: Verdict) -> str:
    """What the paper prints; where it is judged as a ratio to its yardstick, that beside it."""
    return v.claim.text if v.ratio is None else f"{v.claim.text} ({TIMES}{v.ratio:.2f})"


def measured(v: Verdict) -> str:
    """What we have for it, with its uncertainty; empty if nothing."""
    if v.verdict not in MEASURED or not v.values:
        return number(v.measured) if v.measured is not None and v.verdict == EXACT else ""
    if v.missed:
        return missed_text(v.missed, v.seeds)
    if v.measured is None or math.isnan(v.measured):
        return ""
    return (TIMES if v.ratio is not None else "") + figure(v) + half(v)


def figure(v: Verdict) -> str:
    """The mean with as many digits as the paper prints, one more for counts."""
    assert v.measured is not None
    return f"{v.measured:.{_digits(v)}f}"


def half(v: Verdict) -> str:
    """Half the width of the interval."""
    if v.interval is None:
        return ""
    low, high = v.interval
    return f" {PLUS_MINUS} {(high - low) / 2:.{_digits(v)}f}"


def _digits(v: Verdict) -> int:
    if v.ratio is not None:
        return 2
    decimals = len(v.claim.printed.partition(".")[2])
    return max(decimals, 1) if v.claim.metric == "rounds_to_target" else max(decimals, 3 if v.claim.unit == "" else 1)

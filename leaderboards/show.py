"""Verdicts in words and figures, for tables and pages."""

from __future__ import annotations

from bench.output.seeds import SeedNumbers
from leaderboards.orderings import differences
from leaderboards.verdict import EXACT, MEASURED, Verdict, number

TIMES = "\N{MULTIPLICATION SIGN}"


def printed(v: Verdict) -> str:
    """What the paper prints; where it is judged as a ratio to its yardstick, that beside it."""
    return v.claim.text if v.ratio is None else f"{v.claim.text} ({TIMES}{v.ratio:.2f})"


def measured(v: Verdict) -> str:
    """What we have for it, with its uncertainty; empty if nothing."""
    if v.verdict not in MEASURED or not v.values:
        return number(v.measured) if v.measured is not None and v.verdict == EXACT else ""
    if v.claim.is_ordinal:
        return " ".join(filter(None, (v.relation, f"({differences(v.claim, dict(v.values))})")))
    times = TIMES if v.ratio is not None and not v.missed else ""
    return times + SeedNumbers(dict(v.values)).text(f".{_digits(v)}f")


def _digits(v: Verdict) -> int:
    """As many as the paper prints, one more for counts."""
    if v.ratio is not None:
        return 2
    decimals = len(v.claim.printed.partition(".")[2])
    return max(decimals, 1) if v.claim.metric == "rounds_to_target" else max(decimals, 3 if v.claim.unit == "" else 1)

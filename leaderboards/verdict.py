"""One verdict per claim, by the rules of docs/ledger.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.metrics import mean_interval
from leaderboards import judge, results, rivals
from leaderboards.arithmetic import Book, derivation
from leaderboards.judge import BETTER, ENOUGH, TIE, UNCLEAR, WORSE
from leaderboards.ledger import SLACK, Claim, load
from leaderboards.measure import Measured, Shelf, measure, ordering
from leaderboards.papers import special
from leaderboards.reading import higher
from leaderboards.results import CommittedRun

EXACT, REPRODUCED, DIRECTION = "exact", "reproduced", "direction only"
CONTRADICTED, NOT_CONFIRMED = "contradicted", "not confirmed"
CONSISTENT, INCONSISTENT = "consistent", "inconsistent"
NOT_RUN, CANNOT = "not run", "cannot run here"
MEASURED = (REPRODUCED, DIRECTION, CONTRADICTED, NOT_CONFIRMED)
VERDICTS = (EXACT, *MEASURED, CONSISTENT, INCONSISTENT, NOT_RUN, CANNOT)
YARDSTICK = "seconds of the paper's machine; the others of its column are measured as ratios to it"
UNCALIBRATED = "virtual seconds are not calibrated, and the paper prints no seconds of FedAvg for this setting"


@dataclass(frozen=True)
class Verdict:
    """What is known about a claim."""

    claim: Claim
    measured: float | None  # mean over seeds in the claim's unit; or what our code or the paper's own numbers give
    verdict: str
    why: str
    seeds: int = 0
    interval: tuple[float, float] | None = None  # 95 %
    scale: str | None = None  # paper | cpu | other; None: nothing was trained
    deviations: tuple[str, ...] = ()
    values: tuple[tuple[int, float], ...] = ()  # (seed, number), infinity is never
    ratio: float | None = None  # the claimed number as a ratio to its yardstick, where that is what is measured
    results: tuple[CommittedRun, ...] = ()

    @property
    def id(self) -> str:
        return self.claim.id

    @property
    def claimed(self) -> float | None:
        """None is never."""
        return self.claim.value

    @property
    def missed(self) -> int:
        """Seeds that never reached the target."""
        return sum(math.isinf(value) for _, value in self.values)


def all_verdicts() -> list[Verdict]:
    """One object per claim, in the order of the files."""
    return verdicts(load())


def verdicts(claims: Sequence[Claim], found: Sequence[CommittedRun] | None = None) -> list[Verdict]:
    book, shelf = Book(load()), Shelf(results.committed() if found is None else found)
    return [verdict(claim, book, shelf) for claim in claims]


def verdict(claim: Claim, book: Book, shelf: Shelf) -> Verdict:
    """Our own code first, then runs; what a paper's own numbers say is less than either."""
    exact = special(claim.paper).exact.get(claim.metric)
    if exact is not None and (value := exact(claim)) is not None:
        same = abs(value - claim.number) <= claim.half + SLACK
        return Verdict(claim, value, EXACT if same else NOT_CONFIRMED, "from our own models")
    arithmetic = _arithmetic(claim, book)
    can_run = special(claim.paper).obstacle(claim) is None and not _is_yardstick(claim)
    if can_run and (measured := measure(claim, shelf)) is not None:
        return _measured(claim, measured, shelf, arithmetic)
    return arithmetic or _nothing(claim)


def _arithmetic(claim: Claim, book: Book) -> Verdict | None:
    if (found := derivation(claim, book)) is None:
        return None
    why = f"{found.words}: {number(found.value)}{_difference(claim, found.value)}"
    return Verdict(claim, found.value, CONSISTENT if found.agrees(claim) else INCONSISTENT, why)


def _nothing(claim: Claim) -> Verdict:
    reason = special(claim.paper).obstacle(claim)
    if reason is None and _is_yardstick(claim):
        reason = YARDSTICK
    if reason is None and claim.metric == "accuracy_at_time" and rivals.calibration(claim) is None:
        reason = UNCALIBRATED
    return Verdict(claim, None, CANNOT if reason else NOT_RUN, reason or "")


def _is_yardstick(claim: Claim) -> bool:
    stick = rivals.yardstick(claim)
    return stick is not None and stick.id == claim.id


def _measured(claim: Claim, found: Measured, shelf: Shelf, arithmetic: Verdict | None) -> Verdict:
    values = list(found.values.values())
    claimed, half = _comparable(claim)
    mean, width = mean_interval(values) if all(map(math.isfinite, values)) else (None, None)
    interval = None if mean is None or width is None else (mean - width, mean + width)
    allowed = judge.margin(claim, claimed) if claimed is not None else 0.0
    enough = found.scale == "paper" and len(values) >= ENOUGH
    printed, ours, words = _orderings(claim, shelf, values)
    if enough and judge.agrees(claimed, values, half, allowed):
        name = REPRODUCED
    elif printed is not None and printed == ours:
        name = DIRECTION
    elif enough and printed is not None and ours in (BETTER, WORSE, TIE):
        name = CONTRADICTED
    else:
        name = NOT_CONFIRMED
    why = [words, f"the best of {found.points} grid points" if found.points > 1 else ""]
    why += [f"{arithmetic.verdict} with the paper's own numbers ({arithmetic.why})" if arithmetic else ""]
    return Verdict(
        claim,
        mean,
        name,
        "; ".join(filter(None, why)),
        seeds=len(values),
        interval=interval,
        scale=found.scale,
        deviations=found.deviations,
        values=tuple(found.values.items()),
        ratio=claimed if rivals.yardstick(claim) is not None else None,
        results=found.results,
    )


def _comparable(claim: Claim) -> tuple[float | None, float]:
    """The claimed number as it can be measured here, and how far it may have been rounded."""
    stick = rivals.yardstick(claim)
    if stick is None or claim.value is None:
        return claim.value, claim.half
    low = (claim.number - claim.half) / (stick.number + stick.half)
    high = (claim.number + claim.half) / (stick.number - stick.half)
    return claim.number / stick.number, (high - low) / 2


def _orderings(claim: Claim, shelf: Shelf, values: Sequence[float]) -> tuple[str | None, str, str]:
    """The paper's relation to the rival, ours, and both in words."""
    more = higher(claim.metric)
    if rivals.compared(claim) is not None:
        neutral = {"x": 1.0}.get(claim.unit, 100.0 if claim.metric == "upload_ratio" else 0.0)
        allowed = judge.RELATIVE if claim.unit == "x" else judge.margin(claim)
        printed = judge.relation([claim.number - neutral], allowed, more)
        ours = judge.relation([value - neutral for value in values], allowed, more)
        return printed, ours, f"claimed: {printed} than without; ours: {ours}"
    other = rivals.rival(claim)
    pairs = ordering(claim, shelf)
    if other is None:
        return None, UNCLEAR, "the paper prints nothing to compare it with"
    printed = judge.printed_relation(claim, other, more)
    if not pairs:
        return printed, UNCLEAR, f"claimed: {_than(printed, other)}; {other.method} is not run on the same seeds"
    ours = judge.paired_relation(claim, pairs, more)
    words = f"claimed: {_than(printed, other)}; ours, {len(pairs)} paired seeds: {_than(ours, other)}"
    return printed, ours, words


def _than(name: str, other: Claim) -> str:
    if name == TIE:
        return f"a tie with {other.method}"
    return f"{name} than {other.method}" if name != UNCLEAR else f"unclear against {other.method}"


def number(value: float) -> str:
    """As many digits as a table wants."""
    return f"{value:.0f}" if value == int(value) else f"{value:.5g}"


def _difference(claim: Claim, value: float) -> str:
    more = claim.number - value
    shown = abs(more) > claim.half + SLACK
    return f"; printed {abs(more):.2g} {'more' if more > 0 else 'less'}" if shown else ""

"""One verdict per claim, by the rules of docs/ledger.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bench.metrics import mean_interval
from bench.output.seeds import SeedNumbers
from leaderboards import judge, results, rivals
from leaderboards.arithmetic import Book, derivation
from leaderboards.judge import BETTER, TIE, WORSE, Agreement, Ordering
from leaderboards.ledger import SLACK, VERSUS, Claim, load
from leaderboards.measure import Measured, Shelf, View, anyhow, calibration, judged, measure
from leaderboards.orderings import differences, in_words, of_comparison, orderings, relations, shown
from leaderboards.papers import special
from leaderboards.plans import Cell, cell_of
from leaderboards.results import CommittedRun
from leaderboards.seeds import judged_seeds
from sweeps.readings import Open, combinations, open_for

EXACT, REPRODUCED, DIRECTION = "exact", "reproduced", "direction only"
CONTRADICTED, NOT_CONFIRMED, CALIBRATED = "contradicted", "not confirmed", "calibrated"
CONSISTENT, INCONSISTENT = "consistent", "inconsistent"
NOT_RUN, CANNOT = "not run", "cannot run here"
MEASURED = (REPRODUCED, DIRECTION, CONTRADICTED, NOT_CONFIRMED, CALIBRATED)
VERDICTS = (EXACT, *MEASURED, CONSISTENT, INCONSISTENT, NOT_RUN, CANNOT)
NAMED = 8  # readings that were not run, in one line
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
    readings: tuple[str, ...] = ()  # how else it was read, and what came out
    relation: str = ""  # what comes out for an ordinal claim

    @property
    def id(self) -> str:
        return self.claim.id

    @property
    def claimed(self) -> float | None:
        """None is never, or an ordering."""
        return self.claim.value

    @property
    def missed(self) -> int:
        """Seeds that never reached the target."""
        return sum(math.isinf(value) for _, value in self.values)


@dataclass(frozen=True)
class Looked:
    """What runs say of a claim in one view of them."""

    measured: Measured
    agreement: Agreement
    also: str = ""  # the other number of the same runs that agrees with the printed one

    @property
    def decides(self) -> bool:
        return self.measured.scale == "paper"


def all_verdicts() -> list[Verdict]:
    """One object per claim, in the order of the files."""
    return verdicts(load())


def verdicts(claims: Sequence[Claim], found: Sequence[CommittedRun] | None = None) -> list[Verdict]:
    """Orderings are corrected for all that the ledger asks, however few claims are wanted."""
    book, shelf = Book(load()), Shelf(results.committed() if found is None else found)
    found_orderings = orderings(load(), judged(shelf))
    return [verdict(claim, book, shelf, found_orderings) for claim in claims]


def verdict(claim: Claim, book: Book, shelf: Shelf, found_orderings: Mapping[str, Ordering]) -> Verdict:
    """Our own code first, then runs; what a paper's own numbers say is less than either."""
    exact = special(claim.paper).exact.get(claim.metric)
    if exact is not None and (value := exact(claim)) is not None:
        same = abs(value - claim.number) <= claim.half + SLACK
        return Verdict(claim, value, EXACT if same else NOT_CONFIRMED, "from our own code")
    arithmetic = _arithmetic(claim, book)
    if rivals.can_run(claim):
        if (found := _look(claim, judged(shelf))) is not None:
            return _measured(claim, found, shelf, found_orderings.get(claim.id, Ordering()), arithmetic)
        if (found := _look(claim, calibration(shelf))) is not None:
            why = "run only on seeds that had a part in choosing how the paper is read"
            return _made(claim, found, CALIBRATED, [why, _of_paper(arithmetic)], _elsewhere(claim, shelf)[1])
    return arithmetic or _nothing(claim)


def _arithmetic(claim: Claim, book: Book) -> Verdict | None:
    if (found := derivation(claim, book)) is None:
        return None
    why = f"{found.words}: {number(found.value)}{_difference(claim, found.value)}"
    return Verdict(claim, found.value, CONSISTENT if found.agrees(claim) else INCONSISTENT, why)


def _nothing(claim: Claim) -> Verdict:
    reason = special(claim.paper).obstacle(claim)
    if reason is None and rivals.is_yardstick(claim):
        reason = YARDSTICK
    if reason is None and claim.metric == "accuracy_at_time" and rivals.calibration(claim) is None:
        reason = UNCALIBRATED
    return Verdict(claim, None, CANNOT if reason else NOT_RUN, reason or "")


def _look(claim: Claim, view: View) -> Looked | None:
    """The claim's number and, where the paper does not say which of two it prints, the other one too."""
    if (found := measure(claim, view)) is None:
        return None
    other = special(claim.paper).unsaid.get(claim.metric)
    looks = 1 if other is None else 2
    first = _agreement(claim, found, looks)
    if other is None or first.agrees:
        return Looked(found, first)
    also = measure(claim, view, other)
    assert also is not None
    second = _agreement(claim, also, looks)
    if second.agrees:
        words = SeedNumbers(also.values).text(".2f")
        return Looked(found, second, f"the {other.replace('_', ' ')} agrees, {words}")
    return Looked(found, Agreement(differs=first.differs and second.differs, why=first.why or second.why))


def _agreement(claim: Claim, found: Measured, looks: int) -> Agreement:
    if claim.is_ordinal:
        return shown(claim, of_comparison(claim, found))
    claimed, half = comparable(claim)
    allowed = judge.margin(claim, claimed) if claimed is not None else 0.0
    return judge.agreement(claimed, list(found.values.values()), half, allowed, last=found.last, looks=looks)


def decide(agreement: Agreement, printed: str | None, ours: str, *, decides: bool, no_reading_agrees: bool) -> str:
    """The verdict on what was measured. `printed` and `ours`: relations to the rival, None: the paper prints none."""
    if decides and agreement.agrees:
        return REPRODUCED
    if printed in (BETTER, WORSE, TIE) and printed == ours:
        return DIRECTION
    shown = printed is None or ours in (BETTER, WORSE, TIE)
    return CONTRADICTED if decides and agreement.differs and no_reading_agrees and shown else NOT_CONFIRMED


def _measured(claim: Claim, found: Looked, shelf: Shelf, ordering: Ordering, arithmetic: Verdict | None) -> Verdict:
    planned, values = seeds_fixed(claim), found.measured.values
    agreement, missing = shown(claim, ordering) if claim.is_ordinal else found.agreement, ""
    if len(values) < planned:
        agreement, missing = Agreement(), f"{len(values)} of the {planned} seeds fixed beforehand"
    if agreement.agrees and (undecided := [question.about for question in asked_of(claim) if not question.is_decided]):
        agreement, missing = (
            Agreement(),
            f"it agrees, but no sweep at the paper's scale has decided how to read {'; '.join(undecided)}",
        )
    none_agrees, elsewhere = _elsewhere(claim, shelf)
    printed, ours, words = relations(claim, ordering)
    name = decide(agreement, printed, ours, decides=found.decides, no_reading_agrees=none_agrees)
    reason = missing or (agreement.why if name in (DIRECTION, NOT_CONFIRMED) and found.decides else "")
    if name == NOT_CONFIRMED and agreement.differs and not none_agrees:
        reason = "another reading agrees, or has not been run at the paper's scale"
    made = _made(claim, found, name, [reason, found.also, words, _of_paper(arithmetic)], elsewhere)
    return replace(made, relation=in_words(ours)) if claim.is_ordinal else made


def _made(claim: Claim, found: Looked, name: str, why: Sequence[str], readings: tuple[str, ...]) -> Verdict:
    values = list(found.measured.values.values())
    mean, width = mean_interval(values) if all(map(math.isfinite, values)) else (None, None)
    return Verdict(
        claim,
        mean,
        name,
        "; ".join(filter(None, why)),
        seeds=len(values),
        interval=None if mean is None or width is None else (mean - width, mean + width),
        scale=found.measured.scale,
        deviations=found.measured.deviations,
        values=tuple(found.measured.values.items()),
        ratio=comparable(claim)[0] if rivals.yardstick(claim) is not None else None,
        results=found.measured.results,
        readings=readings,
    )


def _of_paper(arithmetic: Verdict | None) -> str:
    return f"{arithmetic.verdict} with the paper's own numbers ({arithmetic.why})" if arithmetic else ""


def _elsewhere(claim: Claim, shelf: Shelf) -> tuple[bool, tuple[str, ...]]:
    """Do all other readings of what the claim needs give another number; and what each gives, in words."""
    asked = asked_of(claim)
    none_agrees, words, not_run = True, list[str](), list[str]()
    for answers in combinations(asked)[1:]:
        names = ", ".join(name for name, question in zip(answers, asked, strict=True) if name != question.chosen)
        found = _look(claim, anyhow(shelf, dict(zip(asked, answers, strict=True))))
        if found is None:
            none_agrees = False
            not_run.append(names)
            continue
        none_agrees &= found.decides and found.agreement.differs
        values = found.measured.values
        text = differences(claim, values) if claim.is_ordinal else SeedNumbers(values).text(".4g", half_form=".2g")
        outcome = found.agreement.why or ("differs" if found.agreement.differs else "agrees")
        if found.agreement.agrees and not found.decides:
            outcome = f"agrees at scale={found.measured.scale}"
        words.append(f"{names}: {text}, {outcome}{f' ({found.also})' if found.also else ''}")
    if not_run:
        words.append(f"not run: {'; '.join(not_run) if len(not_run) <= NAMED else f'{len(not_run)} others'}")
    return none_agrees, tuple(words)


def asked_of(claim: Claim) -> tuple[Open, ...]:
    """The questions about any run that the claim's own number needs."""
    found = (question for cell in cells(claim) for question in open_for(cell.paper, cell.method, cell.dataset))
    return tuple(dict.fromkeys(found))


def cells(claim: Claim) -> list[Cell]:
    """What a claim's own number is made of."""
    pair = rivals.compared(claim)
    return [cell_of(claim, claim.method.partition(VERSUS)[0])] if pair is None else [pair[0], *pair[1]]


def seeds_fixed(claim: Claim) -> int:
    """By how many it is judged."""
    return min(len(judged_seeds(cell, claim.metric)) for cell in cells(claim))


def comparable(claim: Claim) -> tuple[float | None, float]:
    """The claimed number as it can be measured here, and how far it may have been rounded."""
    stick = rivals.yardstick(claim)
    if stick is None or claim.value is None:
        return claim.value, claim.half
    low = (claim.number - claim.half) / (stick.number + stick.half)
    high = (claim.number + claim.half) / (stick.number - stick.half)
    return claim.number / stick.number, (high - low) / 2


def number(value: float) -> str:
    """As many digits as a table wants."""
    return f"{value:.0f}" if value == int(value) else f"{value:.5g}"


def _difference(claim: Claim, value: float) -> str:
    more = claim.number - value
    shown = abs(more) > claim.half + SLACK
    return f"; printed {abs(more):.2g} {'more' if more > 0 else 'less'}" if shown else ""

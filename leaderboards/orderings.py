"""Who is ahead of whom: the relation of every claim to its rival, as printed and as measured."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from bench.output.seeds import SeedNumbers
from leaderboards import judge, rivals
from leaderboards.judge import ENOUGH, TIE, UNCLEAR, Agreement, Ordering
from leaderboards.ledger import SIMILAR, Claim
from leaderboards.measure import Measured, View, measure, ordered
from leaderboards.reading import higher


def orderings(claims: Sequence[Claim], view: View) -> dict[str, Ordering]:
    """Of every claim that runs give one for, corrected within paper, data set and metric."""
    families: dict[tuple[str, str, str], dict[str, Ordering]] = defaultdict(dict)
    for claim in claims:
        if (found := _ordering(claim, view)) is not None:
            families[claim.paper, claim.dataset, claim.metric][claim.id] = found
    return {
        name: one
        for family in families.values()
        for name, one in zip(family, judge.holm(list(family.values())), strict=True)
    }


def _ordering(claim: Claim, view: View) -> Ordering | None:
    if not rivals.can_run(claim):
        return None
    if rivals.compared(claim) is None:
        pairs = ordered(claim, view)
        return judge.paired_ordering(claim, pairs) if pairs else None
    found = measure(claim, view)
    return None if found is None else of_comparison(claim, found)


def of_comparison(claim: Claim, found: Measured) -> Ordering:
    """Of a claim that is a comparison itself, not corrected."""
    neutral, allowed = _no_change(claim)
    return judge.ordering([value - neutral for value in found.values.values()], allowed)


def shown(claim: Claim, ordering: Ordering) -> Agreement:
    """Does the ordering that a claim states come out, or another one?"""
    printed, ours, _ = relations(claim, ordering)
    if ours == UNCLEAR:
        few = ordering.pairs < ENOUGH or math.isinf(ordering.mean)
        return Agreement(why=f"only {ordering.pairs} pairs tell which is ahead" if few else "too noisy")
    return Agreement(agrees=ours == printed, differs=ours != printed)


def _no_change(claim: Claim) -> tuple[float, float]:
    """The number of a comparison of equals, and the margin around it."""
    if claim.is_ordinal:  # in points of accuracy, or per cent
        return 0.0, judge.POINTS if higher(claim.metric) else 100 * judge.RELATIVE
    neutral = {"x": 1.0}.get(claim.unit, 100.0 if claim.metric == "upload_ratio" else 0.0)
    return neutral, judge.RELATIVE if claim.unit == "x" else judge.margin(claim)


def relations(claim: Claim, ordering: Ordering) -> tuple[str | None, str, str]:
    """The paper's relation to the rival, ours, and both in words."""
    more = higher(claim.metric)
    if rivals.compared(claim) is not None:
        neutral, allowed = _no_change(claim)
        ours = ordering.relation(allowed, more)
        if claim.is_ordinal:
            words = f"claimed: {claim.printed}; ours{_pairs(ordering)}: {in_words(ours)}"
            return TIE if claim.printed == SIMILAR else claim.printed, ours, words
        printed = judge.sign(claim.number - neutral, allowed, more)
        return printed, ours, f"claimed: {printed} than without; ours{_pairs(ordering)}: {ours}"
    other = rivals.rival(claim)
    if other is None:
        return None, UNCLEAR, "the paper prints nothing to compare it with"
    printed = judge.printed_relation(claim, other, more)
    if not ordering.pairs:
        return printed, UNCLEAR, f"claimed: {_than(printed, other)}; no seed tells how it is here"
    ours = ordering.relation(judge.ordering_margin(claim), more)
    return printed, ours, f"claimed: {_than(printed, other)}; ours{_pairs(ordering)}: {_than(ours, other)}"


def in_words(relation: str) -> str:
    """As ordinal claims have it."""
    return SIMILAR if relation == TIE else relation


def differences(claim: Claim, by_seed: Mapping[int, float]) -> str:
    """How far the first of an ordinal claim is from the second, for people."""
    if not all(map(math.isfinite, by_seed.values())):
        return "a target was missed"
    unit = "points" if higher(claim.metric) else "%"
    return f"{SeedNumbers(by_seed).text('+.1f', half_form='.1f')} {unit}"


def _pairs(ordering: Ordering) -> str:
    kind = "corrected by Holm" if ordering.corrected else "uncorrected"
    return f", {ordering.pairs} paired seeds" + (f", {kind}" if ordering.pairs >= judge.ENOUGH else "")


def _than(name: str, other: Claim) -> str:
    if name == TIE:
        return f"a tie with {other.method}"
    return f"{name} than {other.method}" if name != UNCLEAR else f"unclear against {other.method}"

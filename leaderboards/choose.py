"""Which reading of a paper counts: the one whose runs on calibration seeds come nearest to its claims as a whole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from textwrap import indent, wrap

from leaderboards import calibrate, judge, results, rivals
from leaderboards.ledger import Claim, load
from leaderboards.measure import Shelf, calibration, measure
from leaderboards.papers import LedgerError, papers, special
from leaderboards.plans import cell_of
from leaderboards.verdict import comparable
from sweeps.readings import CHOOSING, Open, questions

FAR = 5.0  # margins: further is not worse, or one lost cell would decide alone


def distances(question: Open, paper: str, shelf: Shelf) -> dict[str, dict[str, float]]:
    """Reading -> claim -> how many margins it is off, for the claims that every reading was run for."""
    claims = [claim for claim in load() if claim.paper == paper and _concerns(question, claim)]
    found = {
        reading.name: {claim.id: d for claim in claims if (d := _distance(claim, question, reading.name, shelf)) >= 0}
        for reading in question.readings
    }
    common = set.intersection(*(set(by_claim) for by_claim in found.values()))
    return {name: {key: d for key, d in by_claim.items() if key in common} for name, by_claim in found.items()}


def _concerns(question: Open, claim: Claim) -> bool:
    plain = rivals.compared(claim) is None and rivals.can_run(claim) and "seconds" not in claim.metric
    return plain and question.covers(claim.method, cell_of(claim).dataset)


def _distance(claim: Claim, question: Open, reading: str, shelf: Shelf) -> float:
    """Negative: not run at the paper's scale, or by fewer than three seeds."""
    view = calibration(shelf, {question: reading})
    both = (claim.metric, special(claim.paper).unsaid.get(claim.metric, claim.metric))
    looks = [measure(claim, view, metric) for metric in dict.fromkeys(both)]
    if any(found is None or found.scale != "paper" or len(found.values) < judge.ENOUGH for found in looks):
        return -1.0
    claimed, _ = comparable(claim)
    means = [math.fsum(found.values.values()) / len(found.values) for found in looks if found is not None]
    if claimed is None:
        return 0.0 if math.isinf(means[0]) else FAR
    return min(FAR, *(abs(mean - claimed) / judge.margin(claim, claimed) for mean in means))


def scores(found: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The mean distance of each reading; NaN: no claim was run for all of them."""
    return {name: math.fsum(d.values()) / len(d) if d else math.nan for name, d in found.items()}


def nearest(by_reading: Mapping[str, float]) -> str | None:
    """Of equal ones the first that is declared; None: nothing decides."""
    known = [name for name, score in by_reading.items() if not math.isnan(score)]
    return min(known, key=by_reading.__getitem__, default=None)


def check() -> None:
    """What counts is what the rule chooses, wherever runs decide."""
    shelf = Shelf(results.committed())
    for paper in papers():
        for question in questions(paper):
            best = nearest(score(question, paper, shelf)[0])
            if best is None and question.sweep is not None:
                raise LedgerError(
                    f"{question.sweep} is said to decide {question.about}, and its runs are not committed."
                )
            if best is not None and best != question.chosen:
                raise LedgerError(
                    f"sweeps/{paper}.py says that '{question.chosen}' counts for {question.about}; the runs on "
                    f"calibration seeds choose '{best}': python -m leaderboards readings --paper {paper} shows why."
                )


@cache
def score(question: Open, paper: str, shelf: Shelf) -> tuple[dict[str, float], int]:
    """Of each reading, and of how many claims it is the mean."""
    found = distances(question, paper, shelf)
    return scores(found), len(next(iter(found.values())))


def decided(question: Open, paper: str, shelf: Shelf) -> str:
    """What a question's answer rests on, in words."""
    by_reading, count = score(question, paper, shelf)
    if not count:
        return "not decided by runs yet"
    rest = [(off, name) for name, off in by_reading.items() if name != question.chosen]
    next_best = "; next: {1}, {0:.2f}".format(*min(rest)) if rest else ""
    seeds = f"seeds {CHOOSING[0]} to {CHOOSING[-1]}"
    off = f"{by_reading[question.chosen]:.2f} margins off in the mean of {count} claims"
    return f"chosen on {seeds} by {question.sweep}: {off}{next_best}"


def overview(paper: str) -> str:
    """Every question of a paper, for people."""
    shelf = Shelf(results.committed())
    shown = (_shown(question, paper, shelf) for question in questions(paper))
    return "\n\n".join([papers()[paper].name, *shown, *calibrate.overview(paper, shelf)])


def _shown(question: Open, paper: str, shelf: Shelf) -> str:
    by_reading, _ = score(question, paper, shelf)
    about = f"{question.about}: {', '.join(question.methods)} on {', '.join(question.datasets)}"
    lines = [f"{about}; {decided(question, paper, shelf)}"]
    for reading in question.readings:
        mark = "*" if reading.name == question.chosen else " "
        off = "" if math.isnan(by_reading[reading.name]) else f"  {by_reading[reading.name]:.2f} margins off"
        lines.append(f" {mark} {reading.name}: {reading.overrides}{off}")
        lines.append(_wrapped(f"{reading.source} {reading.why}"))
    return "\n".join(lines)


def _wrapped(text: str) -> str:
    return indent("\n".join(wrap(text, 110)), " " * 6)

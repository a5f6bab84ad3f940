"""Which reading of a paper counts: the one whose runs on calibration seeds come nearest to its claims as a whole."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from textwrap import indent, wrap

from leaderboards import calibrate, judge, results, rivals
from leaderboards.ledger import Claim, load
from leaderboards.measure import Shelf, View, calibration, measure
from leaderboards.papers import LedgerError, papers, special
from leaderboards.plans import cell_of
from leaderboards.reading import higher
from leaderboards.seeds import WALL_CLOCK
from leaderboards.verdict import comparable
from sweeps.readings import CHOOSING, Open, questions

FAR = 5.0  # margins: further is not worse, or one lost cell would decide alone
POINT = 0.01  # of accuracy: less is no difference

Distances = dict[str, dict[str, float]]  # reading -> claim -> margins


def distances(question: Open, paper: str, shelf: Shelf) -> tuple[Distances, str]:
    """For the claims that every reading was run for, and the scale of those runs: the paper's, if there are any."""
    claims = [claim for claim in load() if claim.paper == paper and _concerns(question, claim)]
    found = _common(question, claims, shelf, _off)
    if any(found.values()):
        return found, "paper"
    return _common(question, claims, shelf, _off_beside), "cpu"


def _common(
    question: Open, claims: Sequence[Claim], shelf: Shelf, distance: Callable[[Claim, View], float | None]
) -> Distances:
    stood = dict(question.stood)
    views = {reading.name: calibration(shelf, {**stood, question: reading.name}) for reading in question.readings}
    rows = {claim.id: {name: distance(claim, view) for name, view in views.items()} for claim in claims}
    return {
        name: {key: off for key, row in rows.items() if None not in row.values() and (off := row[name]) is not None}
        for name in views
    }


def _concerns(question: Open, claim: Claim) -> bool:
    """What is open of every run is decided without the methods under test, and by the yardstick, too."""
    plain = rivals.compared(claim) is None and special(claim.paper).obstacle(claim) is None
    part = not rivals.is_own(claim) if question.is_of_every_run else not rivals.is_yardstick(claim)
    covered = question.covers(claim.method, cell_of(claim).dataset)
    return plain and part and claim.metric not in WALL_CLOCK and covered


def _off(claim: Claim, view: View) -> float | None:
    """From the printed number, of the last or of the best round; None: not run at the paper's scale."""
    both = (claim.metric, special(claim.paper).unsaid.get(claim.metric, claim.metric))
    means = [_mean(claim, view, metric, "paper") for metric in dict.fromkeys(both)]
    claimed, _ = comparable(claim)
    known = [mean for mean in means if mean is not None]
    return _margins(claim, claimed, *known) if len(known) == len(means) else None


def _off_beside(claim: Claim, view: View) -> float | None:
    """The same at scale=cpu, of accuracies less FedAvg's and of all else as a part of FedAvg's, printed and run.
    Seconds are a part of their yardstick's anyhow, and its own 1."""
    stick = rivals.yardstick(claim)
    if stick is not None:
        if not all(_is_run(one, view) for one in (claim, stick)):
            return None
        if rivals.is_yardstick(claim):
            return 0.0
        ratio = _mean(claim, view, claim.metric, "cpu")
        return FAR if ratio is None else _margins(claim, comparable(claim)[0], ratio)  # None: neither got there
    fedavg = rivals.of_fedavg(claim)
    if fedavg is None or fedavg.value is None:
        return None
    mine, theirs = (_mean(one, view, one.metric, "cpu") for one in (claim, fedavg))
    if mine is None or theirs is None:
        return None
    beside = operator.sub if higher(claim.metric) else operator.truediv
    claimed = None if claim.value is None else beside(claim.number, fedavg.number)
    return FAR if math.isinf(theirs) else _margins(claim, claimed, beside(mine, theirs))


def _is_run(claim: Claim, view: View) -> bool:
    """At scale=cpu, with all seeds."""
    point = view.point(cell_of(claim), claim.where, claim.metric)
    return point is not None and [one.planned.scale for one in point.by_seed.values()] == ["cpu"] * judge.ENOUGH


def _mean(claim: Claim, view: View, metric: str, scale: str) -> float | None:
    found = measure(claim, view, metric)
    if found is None or found.scale != scale or len(found.values) < judge.ENOUGH:
        return None
    return math.fsum(found.values.values()) / len(found.values)


def _end(claim: Claim, view: View) -> float | None:
    point = view.point(cell_of(claim), claim.where, claim.metric)
    return None if point is None else point.each(lambda one: one.run.ends_at).mean


def _margins(claim: Claim, claimed: float | None, *means: float) -> float:
    """A target that is missed is far from any number."""
    if claimed is None:
        return 0.0 if math.isinf(means[0]) else FAR
    return min(FAR, *(abs(mean - claimed) / judge.margin(claim, claimed) for mean in means))


def scores(found: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The mean of each reading; NaN: no claim was run for all of them."""
    return {name: math.fsum(d.values()) / len(d) if d else math.nan for name, d in found.items()}


def nearest(found: Score) -> str | None:
    """Of equal ones the first that is declared, of those that end as high as any; None: nothing decides."""
    known = [name for name, off in found.by_reading.items() if not math.isnan(off)]
    least = min((found.by_reading[name] for name in known), default=FAR)
    equal = [name for name in known if math.isclose(found.by_reading[name], least)]
    highest = max((found.ends_at[name] for name in equal), default=0.0)
    return next((name for name in equal if found.ends_at[name] >= highest - POINT), None)


def check() -> None:
    """What counts is what the rule chooses, wherever runs decide."""
    shelf = Shelf(results.committed())
    for paper in papers():
        for question in questions(paper):
            found = score(question, paper, shelf)
            best = nearest(found)
            if best is None and question.sweep is not None:
                raise LedgerError(
                    f"{question.sweep} is said to decide {question.about}, and its runs are not committed."
                )
            if best is not None and (best, found.scale) != (question.chosen, question.scale):
                raise LedgerError(
                    f"sweeps/{paper}.py says that '{question.chosen}' counts for {question.about}, decided at scale="
                    f"{question.scale}; the runs on calibration seeds choose '{best}' at scale={found.scale}: "
                    f"python -m leaderboards readings --paper {paper} shows why."
                )


@dataclass(frozen=True)
class Score:
    """How far each reading is off in the mean, of how many claims, by runs of which scale."""

    by_reading: Mapping[str, float]
    ends_at: Mapping[str, float]  # mean accuracy of the last round, of the same claims
    claims: int
    scale: str


@cache
def score(question: Open, paper: str, shelf: Shelf) -> Score:
    found, scale = distances(question, paper, shelf)
    claims = [claim for claim in load() if claim.id in next(iter(found.values()))]
    heights = _common(question, claims, shelf, _end)
    return Score(scores(found), scores(heights), len(claims), scale)


def decided(question: Open, paper: str, shelf: Shelf) -> str:
    """What a question's answer rests on, in words."""
    found = score(question, paper, shelf)
    if not found.claims:
        return "not decided by runs yet"
    rest = [(off, name) for name, off in found.by_reading.items() if name != question.chosen]
    next_best = "; next: {1}, {0:.2f}".format(*min(rest)) if rest else ""
    how = f"by {question.sweep}" + (" at scale=cpu, beside a rival" if found.scale == "cpu" else "")
    off = f"{found.by_reading[question.chosen]:.2f} margins off in the mean of {found.claims} claims"
    return f"chosen on seeds {CHOOSING[0]} to {CHOOSING[-1]} {how}: {off}{next_best}"


def overview(paper: str) -> str:
    """Every question of a paper, for people."""
    shelf = Shelf(results.committed())
    shown = (_shown(question, paper, shelf) for question in questions(paper))
    return "\n\n".join([papers()[paper].name, *shown, *calibrate.overview(paper, shelf)])


def _shown(question: Open, paper: str, shelf: Shelf) -> str:
    by_reading = score(question, paper, shelf).by_reading
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

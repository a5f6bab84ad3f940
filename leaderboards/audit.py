"""Where the papers contradict themselves. Every line is computed, from the claims or from what its text quotes."""

from __future__ import annotations

from dataclasses import dataclass

from leaderboards.ledger import load
from leaderboards.papers import papers, special
from leaderboards.verdict import INCONSISTENT, verdicts


@dataclass(frozen=True)
class Slip:
    paper: str
    where: str
    says: str
    computed: str


def slips() -> list[Slip]:
    """Per paper: claims that do not follow from its own numbers, then what no single claim shows."""
    bad = [v for v in verdicts(load(), found=()) if v.verdict == INCONSISTENT]  # by arithmetic, whatever was measured
    found = []
    for paper in papers():
        for v in bad:
            if v.claim.paper == paper:
                what = f"{v.claim.metric.replace('_', ' ')}, {v.claim.method} on {v.claim.dataset}: {v.claim.text}"
                found.append(Slip(paper, v.claim.where, what, v.why))
        found += [Slip(paper, where, says, compute()) for where, says, compute in special(paper).audit]
    return found


def markdown() -> str:
    """The table in docs/ledger.md; a test keeps the two equal."""
    lines = ["| paper | where | it says | computed |", "|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {s.paper} | {s.where} | {s.says} | {s.computed} |" for s in slips())])

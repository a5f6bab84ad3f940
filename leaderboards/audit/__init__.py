"""Where the papers contradict themselves. Every entry is computed, from the claims or from what its text quotes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files

from leaderboards.audit.cells import Entry
from leaderboards.ledger import load
from leaderboards.papers import papers
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
        found += [Slip(paper, where, says, compute()) for where, says, compute in _entries(paper)]
    return found


def _entries(paper: str) -> Sequence[Entry]:
    """Those of audit/<paper>.py, which not every paper needs."""
    if not (files("leaderboards.audit") / f"{paper}.py").is_file():
        return ()
    entries: Sequence[Entry] = import_module(f"leaderboards.audit.{paper}").ENTRIES
    return entries


def markdown() -> str:
    """The table in docs/ledger.md; a test keeps the two equal."""
    lines = ["| paper | where | it says | computed |", "|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {s.paper} | {s.where} | {s.says} | {s.computed} |" for s in slips())])

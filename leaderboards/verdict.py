"""One verdict per claim. So far: what arithmetic can say; docs/ledger.md has the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leaderboards import own
from leaderboards.arithmetic import Book, derivation
from leaderboards.ledger import SLACK, Claim, load

EXACT, NOT_CONFIRMED, NOT_RUN = "exact", "not confirmed", "not run"
CONSISTENT, INCONSISTENT = "consistent", "inconsistent"
VERDICTS = (EXACT, NOT_CONFIRMED, CONSISTENT, INCONSISTENT, NOT_RUN)


@dataclass(frozen=True)
class Verdict:
    """What is known about a claim."""

    claim: Claim
    measured: float | None  # what our code gives, or what the paper's own other numbers give
    verdict: str
    why: str

    @property
    def id(self) -> str:
        return self.claim.id

    @property
    def claimed(self) -> float | None:
        """None is never."""
        return self.claim.value


def all_verdicts() -> list[Verdict]:
    """One object per claim, in the order of the files."""
    return verdicts(load())


def verdicts(claims: Sequence[Claim]) -> list[Verdict]:
    book = Book(load())
    return [judge(claim, book) for claim in claims]


def judge(claim: Claim, book: Book) -> Verdict:
    """Our own code first: what it gives is more than agreement of a paper with itself."""
    if (value := own.exact(claim)) is not None:
        same = abs(value - claim.number) <= claim.half + SLACK
        return Verdict(claim, value, EXACT if same else NOT_CONFIRMED, "from our own models")
    if (found := derivation(claim, book)) is not None:
        value = found.value
        verdict = CONSISTENT if found.agrees(claim) else INCONSISTENT
        return Verdict(claim, value, verdict, f"{found.words}: {number(value)}{_difference(claim, value)}")
    return Verdict(claim, None, NOT_RUN, "the models do not exist yet" if own.pending(claim) else "")


def number(value: float) -> str:
    """As many digits as a table wants."""
    return f"{value:.0f}" if value == int(value) else f"{value:.5g}"


def _difference(claim: Claim, value: float) -> str:
    difference = claim.number - value
    if abs(difference) <= claim.half + SLACK:
        return ""
    return f"; printed {abs(difference):.2g} {'more' if difference > 0 else 'less'}"

"""What follows from a paper's own other numbers. It can only show that a paper agrees with itself, or does not.

A claim is recomputed from the numbers it follows from. It is consistent if the printed digits can come out, given that
each of those numbers was itself rounded when it was printed (counts were not), and inconsistent otherwise; where a
derivation has a tolerance, that decides instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from leaderboards.ledger import SLACK, VERSUS, Claim
from leaderboards.metrics import Formula
from leaderboards.papers import special


@dataclass(frozen=True)
class Derivation:
    """How a claim follows from others of the same paper."""

    formula: Formula
    inputs: tuple[Claim, ...]
    words: str  # the formula for people
    tolerance: float = 0.0  # relative, instead of the printed digits

    @property
    def value(self) -> float:
        """From the numbers as printed."""
        return self.formula(*(claim.number for claim in self.inputs))

    def bounds(self) -> tuple[float, float]:
        """From all numbers that print as these do; the formulas are monotonic in each."""
        ends = [sorted({claim.number - claim.half, claim.number + claim.half}) for claim in self.inputs]
        values = [self.formula(*corner) for corner in product(*ends)]
        return min(values), max(values)

    def agrees(self, claim: Claim) -> bool:
        if self.tolerance:
            return abs(claim.number - self.value) <= self.tolerance * self.value
        low, high = self.bounds()
        return low - SLACK <= claim.number + claim.half and claim.number - claim.half <= high + SLACK


class Book:
    """The claims by what they are about, to find the ones that others follow from."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        self._by_key = {(c.paper, c.where, c.method, c.dataset, c.setting, c.metric): c for c in claims}

    def get(self, like: Claim, **changes: str) -> Claim:
        """The claim that differs from `like` in these columns only."""
        if (found := self.find(like, **changes)) is None:
            raise KeyError(f"no claim is like {like.id} with {changes}")
        return found

    def find(self, like: Claim, **changes: str) -> Claim | None:
        columns = ("paper", "where", "method", "dataset", "setting", "metric")
        return self._by_key.get(tuple(changes.get(name, getattr(like, name)) for name in columns))


def derivation(claim: Claim, book: Book) -> Derivation | None:
    """How a claim follows from the others; None if it does not, or has no number."""
    rules = special(claim.paper).derivations
    find = rules.get(claim.metric) or rules.get(claim.where) or _from_both
    return find(claim, book) if claim.value is not None else None


def _from_both(claim: Claim, book: Book) -> Derivation | None:
    """A claim of "a vs b" in a place that prints the number of each."""
    own, versus, base = claim.method.partition(VERSUS)
    if not versus or claim.definition.comparison is None:
        return None
    metric, formula = claim.definition.comparison
    pair = [book.find(claim, method=name, metric=metric) for name in (own, base)]
    inputs = tuple(found for found in pair if found is not None and found.value is not None)
    if len(inputs) < 2:
        return None
    return Derivation(formula, inputs, f"{inputs[0].text} against {inputs[1].text}, {claim.where}")

"""The claims of the papers: one CSV per paper in claims/, one row per printed number or stated ordering."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files

from leaderboards.metrics import METRICS, Metric
from leaderboards.papers import LedgerError, papers, special

SLACK = 1e-9  # of float arithmetic at an exact tie
NEVER = "never"
VERSUS = " vs "  # between two methods, or two values of a setting
SIMILAR = "similar"
RELATIONS = ("better", "worse", SIMILAR)  # what an ordinal claim says of the first
COUNTS = ("parameters", "rounds_to_target")  # what is printed of them is not rounded
MISSABLE = ("rounds_to_target", "seconds_to_target", "virtual_seconds_to_target")


@dataclass(frozen=True)
class Claim:
    """One printed number, or the word of a stated ordering: where it stands, what it is about, and its digits."""

    id: str
    paper: str
    where: str
    method: str
    dataset: str
    setting: str  # key=value or words, separated by ;
    metric: str
    printed: str = field(metadata={"column": "value"})  # as in the paper, trailing zeros too; a word
    unit: str

    @property
    def value(self) -> float | None:
        """None is never, as in bench.metrics.rounds_to_target, or an ordering, which has no number."""
        return None if self.printed in (NEVER, *RELATIONS) else float(self.printed)

    @property
    def number(self) -> float:
        if self.value is None:
            raise ValueError(f"{self.id} is '{self.printed}': it has no number")
        return self.value

    @property
    def half(self) -> float:
        """Half a unit of the last printed digit: how far the unrounded number may lie away; counts are exact."""
        return 0.0 if self.metric in COUNTS else 0.5 * 10.0 ** -len(self.printed.partition(".")[2])

    @property
    def definition(self) -> Metric:
        return special(self.paper).metrics.get(self.metric) or METRICS[self.metric]

    @property
    def is_ordinal(self) -> bool:
        return self.definition.ordinal

    @property
    def stated(self) -> dict[str, str]:
        """The keys of its setting."""
        return dict(part.split("=", 1) for part in self.setting.split(";") if "=" in part)

    @property
    def text(self) -> str:
        """With its unit, for people."""
        return f"{self.printed} {self.unit}".strip()


COLUMNS = tuple(f.metadata.get("column", f.name) for f in fields(Claim))


def slug(*parts: str) -> str:
    """The readable name of a claim: its columns in lower case, without what a shell would want quoted."""
    words = (re.sub(r"[^a-z0-9._=+]+", "-", part.lower().replace(". ", "-").replace(";", "+")) for part in parts)
    return "/".join(word.strip("-") or "any" for word in words)


@cache
def load() -> tuple[Claim, ...]:
    """Every claim of every paper, checked."""
    claims = []
    for paper in papers():
        found = _read(paper)
        if strangers := [claim.id for claim in found if claim.paper != paper]:
            raise LedgerError(f"claims/{paper}.csv has a claim of another paper: {strangers[0]}.")
        claims += found
    validate(claims)
    return tuple(claims)


def printed_numbers(paper: str, where: str, metric: str, *columns: str) -> dict[tuple[str, ...], float]:
    """Of one metric in one place of a paper, by these columns; what was never reached is left out."""
    return {
        tuple(getattr(claim, name) for name in columns): claim.number
        for claim in load()
        if (claim.paper, claim.where, claim.metric) == (paper, where, metric) and claim.value is not None
    }


def _read(paper: str) -> list[Claim]:
    with (files("leaderboards") / "claims" / f"{paper}.csv").open(encoding="utf-8") as file:
        head, *rows = list(csv.reader(file)) or [[]]
    if tuple(head) != COLUMNS:
        raise LedgerError(f"claims/{paper}.csv has the columns {', '.join(head)}, not {', '.join(COLUMNS)}.")
    for row in rows:
        if len(row) != len(COLUMNS):
            raise LedgerError(f"claims/{paper}.csv: '{','.join(row)}' has {len(row)} columns, not {len(COLUMNS)}.")
    return [Claim(*row) for row in rows]


def validate(claims: list[Claim]) -> None:
    """Names are unique and follow from the columns; numbers are finite, in range and in a unit their metric has."""
    seen: set[str] = set()
    for claim in claims:
        expected = slug(claim.paper, claim.where, claim.method, claim.dataset, claim.setting, claim.metric)
        if claim.id != expected:
            raise LedgerError(f"The claim {claim.id} has to be named {expected}, after its columns.")
        if claim.id in seen:
            raise LedgerError(f"The claim {claim.id} is there twice.")
        seen.add(claim.id)
        known = {**METRICS, **special(claim.paper).metrics}
        if claim.metric not in known:
            if others := [paper for paper in papers() if claim.metric in special(paper).metrics]:
                raise LedgerError(f"{claim.id}: {claim.metric} is defined by {others[0]}, for it alone.")
            raise LedgerError(f"{claim.id}: unknown metric {claim.metric}; there are {', '.join(known)}.")
        if claim.unit not in known[claim.metric].units:
            allowed = " or ".join(f"'{unit}'" for unit in known[claim.metric].units)
            raise LedgerError(f"{claim.id}: {claim.metric} is not given in '{claim.unit}' but in {allowed}.")
        if (reason := _wrong_number(claim)) is not None:
            raise LedgerError(f"{claim.id}: '{claim.printed}' {reason}.")


def _wrong_number(claim: Claim) -> str | None:
    if claim.is_ordinal:
        if VERSUS not in claim.method + claim.setting:
            return f"needs two methods or settings{VERSUS}each other"
        return None if claim.printed in RELATIONS else f"is not {', '.join(RELATIONS[:-1])} or {RELATIONS[-1]}"
    if claim.printed == NEVER:
        return None if claim.metric in MISSABLE else f"is not possible for {claim.metric}"
    if not re.fullmatch(r"\d+(\.\d+)?", claim.printed) or not math.isfinite(claim.number):
        return "is not a number"
    if claim.metric in COUNTS and "." in claim.printed:
        return "is not a count"
    highest = {"%": 100.0, "": 1.0}.get(claim.unit, math.inf) if claim.metric != "parameters" else math.inf
    return None if 0 < claim.number <= highest else f"is not above 0 and at most {highest:g}"

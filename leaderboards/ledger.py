"""The claims of the papers: one CSV per paper in claims/, one row per printed number."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files

from leaderboards.papers import LedgerError, papers

SLACK = 1e-9  # of float arithmetic at an exact tie
NEVER = "never"
# what may be claimed, and in which unit it is printed; an empty unit is a plain number or a fraction
UNITS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("final_accuracy", "best_accuracy"), ("%", "")),
    **dict.fromkeys(("accuracy_at_time", "parameters"), ("",)),
    **dict.fromkeys(("seconds_per_round", "seconds_to_target", "virtual_seconds_to_target"), ("s",)),
    "rounds_to_target": ("rounds",),
    "unit_cost": ("MB",),
    **dict.fromkeys(("upload_to_target", "upload_total", "traffic_to_target"), ("GB",)),
    **dict.fromkeys(("round_reduction", "upload_reduction", "upload_ratio"), ("%",)),
    **dict.fromkeys(("time_reduction", "time_reduction_at_least", "time_reduction_mean"), ("%",)),
    **dict.fromkeys(("accuracy_gain_mean", "accuracy_gain_at_most", "accuracy_gain_approx"), ("%",)),
    "accuracy_gain": ("%", "% relative"),
    "fedlga_best_accuracy_gain_over_method": ("% relative",),
    "fedlga_round_speedup_over_method": ("x",),
}
# how these are read off runs or models is one paper's own definition
OF_ONE_PAPER = {
    **dict.fromkeys(("unit_cost", "upload_total"), "fed2a"),
    **dict.fromkeys(("fedlga_best_accuracy_gain_over_method", "fedlga_round_speedup_over_method"), "fedlga"),
    "time_reduction_at_least": "fedlc",
}
EXACT = ("parameters", "rounds_to_target")  # counts: what is printed is not rounded
MISSABLE = ("rounds_to_target", "seconds_to_target", "virtual_seconds_to_target")


@dataclass(frozen=True)
class Claim:
    """One printed number: where it stands, what it is about, and its digits."""

    id: str
    paper: str
    where: str
    method: str
    dataset: str
    setting: str  # key=value or words, separated by ;
    metric: str
    printed: str = field(metadata={"column": "value"})  # as in the paper, trailing zeros too, or "never"
    unit: str

    @property
    def value(self) -> float | None:
        """None is never, as in bench.metrics.rounds_to_target."""
        return None if self.printed == NEVER else float(self.printed)

    @property
    def number(self) -> float:
        if self.value is None:
            raise ValueError(f"{self.id} is never reached: it has no number")
        return self.value

    @property
    def half(self) -> float:
        """Half a unit of the last printed digit: how far the unrounded number may lie away; counts are exact."""
        return 0.0 if self.metric in EXACT else 0.5 * 10.0 ** -len(self.printed.partition(".")[2])

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
        if claim.metric not in UNITS:
            raise LedgerError(f"{claim.id}: unknown metric {claim.metric}; there are {', '.join(UNITS)}.")
        if OF_ONE_PAPER.get(claim.metric, claim.paper) != claim.paper:
            raise LedgerError(f"{claim.id}: {claim.metric} is defined by {OF_ONE_PAPER[claim.metric]}, for it alone.")
        if claim.unit not in UNITS[claim.metric]:
            allowed = " or ".join(f"'{unit}'" for unit in UNITS[claim.metric])
            raise LedgerError(f"{claim.id}: {claim.metric} is not given in '{claim.unit}' but in {allowed}.")
        if (reason := _wrong_number(claim)) is not None:
            raise LedgerError(f"{claim.id}: '{claim.printed}' {reason}.")


def _wrong_number(claim: Claim) -> str | None:
    if claim.printed == NEVER:
        return None if claim.metric in MISSABLE else f"is not possible for {claim.metric}"
    if not re.fullmatch(r"\d+(\.\d+)?", claim.printed) or not math.isfinite(claim.number):
        return "is not a number"
    if claim.metric in EXACT and "." in claim.printed:
        return "is not a count"
    highest = {"%": 100.0, "": 1.0}.get(claim.unit, math.inf) if claim.metric != "parameters" else math.inf
    return None if 0 < claim.number <= highest else f"is not above 0 and at most {highest:g}"

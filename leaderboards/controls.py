"""Equal-rate controls beside the claims of methods that step with another rate than their rivals."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.metrics import PLUS_MINUS, mean_interval, missed_text
from leaderboards import rivals
from leaderboards.arithmetic import COMPARISONS
from leaderboards.ledger import Claim
from leaderboards.measure import Shelf
from leaderboards.plans import PlannedRun, every
from leaderboards.reading import reader

# paper -> the sweep that holds its controls, and how their settings begin
SWEEPS = {
    "fedlga": ("fedlga/readings", "eta_g="),
    "fedagg": ("fedagg/equal_rate", "dist="),
    "fedlc": ("fedlc/equal_rate", "rate x"),
}


def controls(claim: Claim, shelf: Shelf) -> list[str]:
    """In words, such as "fedavg, rate x5: 61.2 ± 0.8"; empty if there are none, or none was run."""
    metric = COMPARISONS[claim.metric][0] if claim.metric in COMPARISONS else claim.metric
    if not _wants(claim) or "seconds_" in metric.replace("virtual_seconds_", "") or metric == "accuracy_at_time":
        return []
    found = []
    for place in every():
        if _beside(claim, place):
            for point in shelf.points(place.cell, None):
                values = list(point.values(reader(claim, metric, place.cell)).values())
                found.append(f"{place.run.method}, {place.run.setting.replace(';', ', ')}: {_words(values)}")
    return list(dict.fromkeys(found))


def _wants(claim: Claim) -> bool:
    return claim.paper in SWEEPS and (rivals.is_own(claim) or claim.metric in COMPARISONS)


def _beside(claim: Claim, place: PlannedRun) -> bool:
    name, start = SWEEPS[claim.paper]
    run = place.run
    if place.sweep.name != name or run.dataset != claim.dataset or not run.setting.startswith(start):
        return False
    if claim.paper != "fedagg":
        return True
    parts = claim.setting.split(";")
    return {"model=Linear", "participation=20%", run.setting.partition(";")[0]} <= {*parts}


def _words(values: Sequence[float]) -> str:
    if missed := sum(map(math.isinf, values)):
        return missed_text(missed, len(values))
    mean, half = mean_interval(values)
    return f"{mean:.4g}" + (f" {PLUS_MINUS} {half:.2g}" if half is not None else " (one seed)")

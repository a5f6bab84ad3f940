"""Equal-rate controls beside the claims of methods that step with another rate than their rivals."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.metrics import PLUS_MINUS, mean_interval, missed_text
from leaderboards import rivals
from leaderboards.ledger import Claim
from leaderboards.measure import Shelf
from leaderboards.papers import special
from leaderboards.plans import every
from leaderboards.reading import reader


def controls(claim: Claim, shelf: Shelf) -> list[str]:
    """In words, such as "fedavg, rate x5: 61.2 ± 0.8"; empty if there are none, or none was run."""
    comparison = claim.definition.comparison
    metric = claim.metric if comparison is None else comparison[0]
    seconds = metric in ("seconds_per_round", "seconds_to_target", "accuracy_at_time")
    if seconds or (comparison is None and not rivals.is_own(claim)):
        return []
    found = []
    for planned in every():
        if planned.run.dataset == claim.dataset and special(claim.paper).controls(claim, planned):
            for point in shelf.points(planned.cell, None):
                values = list(point.values(reader(claim, metric, planned.cell)).values())
                found.append(f"{planned.run.method}, {planned.run.setting.replace(';', ', ')}: {_words(values)}")
    return list(dict.fromkeys(found))


def _words(values: Sequence[float]) -> str:
    if missed := sum(map(math.isinf, values)):
        return missed_text(missed, len(values))
    mean, half = mean_interval(values)
    return f"{mean:.4g}" + (f" {PLUS_MINUS} {half:.2g}" if half is not None else " (one seed)")

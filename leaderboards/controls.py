"""Equal-rate controls beside the claims of methods that step with another rate than their rivals."""

from __future__ import annotations

from bench.output.seeds import SeedNumbers
from leaderboards import rivals
from leaderboards.ledger import Claim
from leaderboards.measure import Shelf, numbers
from leaderboards.papers import special
from leaderboards.plans import every


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
                values = numbers(point, claim, metric, planned.cell)
                found.append(f"{planned.run.method}, {planned.run.setting.replace(';', ', ')}: {_words(values)}")
    return list(dict.fromkeys(found))


def _words(values: SeedNumbers) -> str:
    alone = " (one seed)" if len(values.by_seed) == 1 and not values.missed else ""
    return values.text(".4g", half_form=".2g") + alone

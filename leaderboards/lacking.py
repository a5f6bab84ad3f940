"""What every claim that can be run here takes to be measured, and what of it is committed.

python -P -m leaderboards.lacking prints it as JSON, for python -m sweeps campaign, which knows nothing of the ledger.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from leaderboards import results, rivals
from leaderboards.ledger import Claim, load
from leaderboards.measure import Shelf, View, judged
from leaderboards.papers import special
from leaderboards.plans import Cell, standing_for
from leaderboards.seeds import WALL_CLOCK, judged_seeds
from leaderboards.verdict import UNCALIBRATED, cells, seeds_fixed
from sweeps.blocks import ClaimNeeds, NeededRun

SECONDS = "seconds are measured on an idle machine, by one sweep for all methods: python -m leaderboards command CLAIM"


def needs() -> list[ClaimNeeds]:
    """One for every claim whose number comes from runs that can be made here."""
    view = judged(Shelf(results.committed()))
    return [_needs(claim, view) for claim in load() if is_run(claim)]


def is_run(claim: Claim) -> bool:
    trained = claim.metric not in special(claim.paper).exact and bool(rivals.needs(claim))
    return trained and rivals.can_run(claim)


def _needs(claim: Claim, view: View) -> ClaimNeeds:
    own, metric = cells(claim)[0], claim.metric
    if claim.definition.comparison is not None:
        metric = claim.definition.comparison[0]
    wanted = dict.fromkeys(rivals.needs(claim))
    runs = [run for cell in wanted if (run := _run(cell, claim, metric, view)) is not None]
    obstacle = "no run of a plan in sweeps/ stands for it" if len(runs) < len(wanted) else ""
    if metric in WALL_CLOCK:
        obstacle = SECONDS
    if metric == "accuracy_at_time" and rivals.calibration(claim) is None:
        obstacle = UNCALIBRATED
    return ClaimNeeds(claim.id, f"{own.paper} {own.dataset} {own.setting}", tuple(runs), obstacle)


def _run(cell: Cell, claim: Claim, metric: str, view: View) -> NeededRun | None:
    """A rival is needed on the claim's own seeds only."""
    place, point = standing_for(cell, claim.where), view.point(cell, claim.where, metric)
    if place is None:
        return None
    there: dict[str, list[int]] = {}
    for seed, one in point.by_seed.items() if point is not None else ():
        there.setdefault(one.planned.scale, []).append(seed)
    seeds = range(min(seeds_fixed(claim), len(judged_seeds(cell, metric))))
    return NeededRun(*place.run.label, place.run.overrides, tuple(seeds), there)


if __name__ == "__main__":
    print(json.dumps([asdict(claim) for claim in needs()]))

"""python -m leaderboards seeds: how many seeds each cell needs, by the spread of its runs on calibration seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from shlex import join

from bench.output.metrics_csv import csv_text
from bench.output.tables import aligned
from bench.record import write_atomically
from leaderboards import judge, results, rivals, seeds
from leaderboards.ledger import Claim, load
from leaderboards.measure import Shelf, calibration, judged, measure
from leaderboards.papers import LedgerError, special
from leaderboards.plans import Cell, cell_of, standing_for
from leaderboards.verdict import comparable

SHORT = 60.0  # seconds: a run that takes less costs nothing
FEW, MOST = 5, 20  # seeds of short runs at the least; of any cell at the most
ROOM = 0.5  # of a margin: how wide half an interval may be


@dataclass(frozen=True)
class Need:
    """Of a cell, over all claims about it."""

    cell: Cell
    spread: float  # the widest of its numbers' standard deviations over calibration seeds, in margins; inf: censored
    seconds: float  # of a run
    seeds: int


def needed(shelf: Shelf) -> dict[Cell, Need]:
    """For the cells that were run on calibration seeds at the paper's scale, in the readings that count."""
    found: dict[Cell, Need] = {}
    for claim in load():
        if (need := _need(claim, shelf)) is not None:
            old = found.get(need.cell)
            found[need.cell] = need if old is None or need.spread > old.spread else old
    return found


def _need(claim: Claim, shelf: Shelf) -> Need | None:
    if rivals.compared(claim) is not None or not rivals.can_run(claim) or "seconds" in claim.metric:
        return None
    claimed, _ = comparable(claim)
    metrics = dict.fromkeys((claim.metric, special(claim.paper).unsaid.get(claim.metric, claim.metric)))
    looks = [measure(claim, calibration(shelf), metric) for metric in metrics]
    known = [found for found in looks if found is not None and found.scale == "paper"]
    if len(known) < len(looks) or any(len(found.values) < judge.ENOUGH for found in known):
        return None
    allowed = judge.margin(claim, claimed) if claimed is not None else math.inf
    spread = max(_deviation(list(found.values.values())) / allowed for found in known)
    took = [run.result.wall_seconds or math.inf for run in known[0].results]
    seconds = math.fsum(took) / len(took)
    least = FEW if seconds < SHORT else judge.ENOUGH
    wanted = judge.seeds_needed(spread, ROOM, 1 - judge.LEVEL / len(looks)) or MOST
    return Need(cell_of(claim), spread, seconds, min(MOST, max(least, wanted)))


def _deviation(values: list[float]) -> float:
    """Zero where every seed missed the target, infinite where only some did."""
    if any(map(math.isinf, values)):
        return 0.0 if all(map(math.isinf, values)) else math.inf
    return judge.mean_deviation(values)[1]


def update() -> int:
    """Fixes what the calibration runs ask for; the number of rows that were written or changed."""
    found = {cell: need.seeds for cell, need in needed(Shelf(results.committed())).items()}
    fixed = seeds.planned()
    rows = [
        [*astuple(cell), count] for cell, count in sorted((fixed | found).items(), key=lambda item: astuple(item[0]))
    ]
    write_atomically(seeds.FILE, csv_text([seeds.COLUMNS, *rows]))
    return sum(fixed.get(cell) != count for cell, count in found.items())


def check() -> None:
    """What is fixed is what the calibration runs ask for: nobody adds seeds until a number comes out."""
    fixed = seeds.planned()
    for cell, need in needed(Shelf(results.committed())).items():
        if (count := fixed.get(cell)) is not None and count != need.seeds:
            raise LedgerError(
                f"leaderboards/seeds.csv has {count} seeds for {' '.join(astuple(cell))}; by the spread over "
                f"calibration seeds it is {need.seeds}: python -m leaderboards seeds."
            )


def overview() -> str:
    """Every cell, and how to run what is missing of it."""
    shelf = Shelf(results.committed())
    rows, missing = [["cell", "deviation, margins", "seconds a run", "needs", "fixed", "run"]], list[str]()
    fixed, by_cell = seeds.planned(), _runs(shelf)
    for cell, need in needed(shelf).items():
        there = by_cell[cell]
        spread = "censored" if math.isinf(need.spread) else f"{need.spread:.2f}"
        name = " ".join((cell.method, cell.dataset, cell.setting))
        count = str(fixed.get(cell, ""))
        rows.append([name, spread, f"{need.seconds:.0f}", str(need.seeds), count, str(len(there))])
        missing += _command(cell, [seed for seed in seeds.judged_seeds(cell) if seed not in there])
    words = ["To run what is missing:", *missing] if missing else ["Nothing is missing."]
    return "\n".join([*aligned(rows, words=(0,)), "", *words])


def _runs(shelf: Shelf) -> Mapping[Cell, set[int]]:
    """The judged seeds that each cell has, in the reading that counts, at the paper's scale."""
    found: dict[Cell, set[int]] = {}
    for claim in load():
        cell, point = cell_of(claim), judged(shelf).point(cell_of(claim), claim.where, claim.metric)
        whole = {seed for seed, one in point.by_seed.items() if one.planned.scale == "paper"} if point else set()
        found.setdefault(cell, set()).update(whole)
    return found


def _command(cell: Cell, lacking: list[int]) -> Iterator[str]:
    place = standing_for(cell)
    if lacking and place is not None:
        narrowed = [f"method={cell.method}", f"dataset={place.run.dataset}", f"setting={place.run.setting}"]
        yield "  " + join(
            ["python", "-m", "sweeps", place.sweep.name, *narrowed, f"seed={','.join(map(str, lacking))}"]
        )

"""How many seeds a cell is judged by: fixed in leaderboards/seeds.csv before they are run."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from leaderboards.judge import ENOUGH
from leaderboards.plans import Cell

FILE = Path(__file__).with_name("seeds.csv")
WALL_CLOCK = ("seconds_per_round", "seconds_to_target")
COLUMNS = ("paper", "method", "dataset", "setting", "seeds")


@cache
def planned() -> dict[Cell, int]:
    with FILE.open(newline="", encoding="utf-8") as file:
        return {Cell(*(row[name] for name in COLUMNS[:4])): int(row["seeds"]) for row in csv.DictReader(file)}


def judged_seeds(cell: Cell, metric: str | None = None) -> range:
    """Others were not asked for: they must not decide. Seconds need an idle machine, and few seeds."""
    return range(ENOUGH if metric in WALL_CLOCK else planned().get(cell, ENOUGH))

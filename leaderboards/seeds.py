"""How many seeds a cell is judged by: fixed in leaderboards/seeds.csv before they are run."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from leaderboards.judge import ENOUGH
from leaderboards.plans import Cell

FILE = Path(__file__).with_name("seeds.csv")
COLUMNS = ("paper", "method", "dataset", "setting", "seeds")


@cache
def planned() -> dict[Cell, int]:
    with FILE.open(newline="", encoding="utf-8") as file:
        return {Cell(*(row[name] for name in COLUMNS[:4])): int(row["seeds"]) for row in csv.DictReader(file)}


def judged_seeds(cell: Cell) -> range:
    """Others were not asked for: they must not decide."""
    return range(planned().get(cell, ENOUGH))

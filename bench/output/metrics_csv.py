"""metrics.csv: a line per reporting round, and an empty cell where nothing was measured."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from bench.errors import UserError

Row = dict[str, float]


def number(value: float | None) -> float | None:
    return value if value is None or type(value) is int else float(value)  # numpy's numbers do not print as numbers


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Of any table; None is an empty cell."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def read(path: Path) -> list[Row]:
    """What is complete in the file; a number that was not taken is NaN."""
    if not path.exists():
        return []
    try:
        text = path.read_bytes().decode()
        complete = text[: text.rfind("\n") + 1]  # a killed run may have left half a line
        names, *lines = csv.reader(io.StringIO(complete), strict=True) if complete else [[]]
        return [dict(zip(names, map(_cell, cells), strict=True)) for cells in lines]
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(f"{path} is damaged: {error}.") from None


def _cell(text: str) -> float:
    return int(text) if text.lstrip("-").isdigit() else float(text or "nan")

"""timeline.csv: when each job downloaded, trained, transmitted and waited."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable
from pathlib import Path

from bench.errors import UserError
from bench.output.metrics_csv import csv_text
from bench.record import write_atomically
from bench.simulation.tally import Ended

COLUMNS = ("round", "client", "version", "dispatched", "begins", "finish", "arrival", "outcome")


_KINDS = (int, int, int, float, float, float, float, str)  # of the columns


class Log:
    """timeline.csv of a run: a row for each job that ended."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "timeline.csv"
        self.written = hashlib.sha256()  # of the file

    def append(self, round: int, jobs: Iterable[Ended]) -> None:
        new = not self.path.exists()
        text = csv_text([*([COLUMNS] if new else []), *([round, *job] for job in jobs)])
        with self.path.open("a", newline="", encoding="utf-8") as file:
            file.write(text)
        self.written.update(text.encode())

    def kept(self, rounds: int) -> str:
        """What the file says of the rounds that a checkpoint knows of."""
        if not self.path.exists():
            return ""
        return csv_text([COLUMNS, *(job.values() for job in self.read() if int(job["round"]) <= rounds)])

    def truncate(self, rounds: int) -> None:
        """Go on after the first `rounds` rounds."""
        text = self.kept(rounds)
        self.written = hashlib.sha256(text.encode())
        if text:
            write_atomically(self.path, text)

    def read(self) -> list[dict[str, str]]:
        """What is complete in the file: a killed run may have left half a line."""
        try:
            text = self.path.read_bytes().decode()
            names, *rows = csv.reader(io.StringIO(text[: text.rfind("\n") + 1]), strict=True)
            if tuple(names) != COLUMNS:
                raise ValueError("its columns are others")
            for row in rows:
                for kind, cell in zip(_KINDS, row, strict=True):
                    kind(cell)
        except (OSError, ValueError, csv.Error) as error:
            raise UserError(f"{self.path} is damaged: {error}.") from None
        return [dict(zip(COLUMNS, row, strict=True)) for row in rows]

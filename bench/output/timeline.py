"""timeline.csv: when each job downloaded, trained, transmitted and waited."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from bench.output.metrics_csv import csv_text
from bench.record import write_atomically
from bench.simulation.tally import Ended

COLUMNS = ("round", "client", "version", "dispatched", "begins", "finish", "arrival", "outcome")


class Log:
    """timeline.csv of a run: a row for each job that ended."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "timeline.csv"

    def append(self, round: int, jobs: Iterable[Ended]) -> None:
        new = not self.path.exists()
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            if new:
                writer.writerow(COLUMNS)
            writer.writerows([round, *job] for job in jobs)

    def truncate(self, rounds: int) -> None:
        """Keep what a checkpoint knows of."""
        if self.path.exists():
            kept = [line for line in self.read() if int(line["round"]) <= rounds]
            write_atomically(self.path, csv_text([COLUMNS, *(line.values() for line in kept)]))

    def read(self) -> list[dict[str, str]]:
        with self.path.open(newline="", encoding="utf-8") as file:
            return [row for row in csv.DictReader(file) if row["outcome"]]

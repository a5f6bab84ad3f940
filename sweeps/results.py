"""What a sweep's trials add up to: the best parameters of each cell, mean and interval over seeds, and the budget."""

from __future__ import annotations

import csv
import io
import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from bench.metrics import PLUS_MINUS, interval_text, missed_text
from sweeps.plan import GOALS, PlannedRun, Sweep
from sweeps.queue import ERROR, JOB, RESULT

KeptResult = Mapping[str, Any]  # what of a run's result is in the database
GOAL_WORDS = {
    "rounds_to_target": "fewest rounds to the target, then best accuracy",
    "final_accuracy": "highest final accuracy",
    "best_accuracy": "highest accuracy of any round",
}


@dataclass(frozen=True)
class BestConfiguration:
    """One cell: its best configuration, over the seeds that are finished."""

    label: tuple[str, str, str]
    parameters: str  # what tells it from the cell's other configurations
    tried: int  # configurations with a result
    planned: int
    results: tuple[KeptResult, ...]  # one per seed

    def numbers(self, key: str) -> list[float | None]:
        return [None if result.get("diverged") else result.get(key) for result in self.results]

    @property
    def diverged(self) -> int:
        return sum(bool(result.get("diverged")) for result in self.results)


def by_job(trials: Iterable[FrozenTrial]) -> dict[str, KeptResult]:
    """The result of every finished job."""
    return {t.user_attrs[JOB]: t.user_attrs[RESULT] for t in trials if t.state == TrialState.COMPLETE}


def rows(sweep: Sweep, finished: Mapping[str, KeptResult]) -> list[BestConfiguration]:
    """One per cell that has a result, in the order of the sweep."""
    found = []
    for label, runs in sweep.grids.items():
        of_seeds = [(run, tuple(result for _, result in _finished(run, sweep, finished))) for run in runs]
        tried = [(run, results) for run, results in of_seeds if results]
        if tried:
            run, results = min(tried, key=lambda option: _rank(sweep.goal, option[1]))
            found.append(BestConfiguration(label, _parameters(run, runs), len(tried), len(runs), results))
    return found


def _finished(run: PlannedRun, sweep: Sweep, finished: Mapping[str, KeptResult]) -> Iterator[tuple[int, KeptResult]]:
    """The seeds of a run that have a result."""
    for seed in sweep.seeds:
        if (result := finished.get(shlex.join(run.words(seed)))) is not None:
            yield seed, result


def markdown(sweep: Sweep, table: Sequence[BestConfiguration]) -> str:
    """The table, then what to know of it."""
    target = {result["target"] for row in table for result in row.results}
    goal = f"{100 * next(iter(target)):g} %" if len(target) == 1 else "target"
    head = ["method", "data set", "setting", "best parameters", "tried", "seeds"]
    head += [f"rounds to {goal}", "final accuracy %", "best accuracy %", "s/round", "diverged"]
    return "\n".join([*lines_of([head, *(_cells(row) for row in table)]), "", *_notes(sweep, table)])


def lines_of(cells: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table that can be read as it is."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    text = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |" for line in cells]
    return [text[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *text[1:]]


def table_csv(sweep: Sweep, finished: Mapping[str, KeptResult]) -> str:
    """Every finished run of every cell, for other programs."""
    keys = ("final_accuracy", "best_accuracy", "rounds_to_target", "seconds_per_round", "id")
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["method", "dataset", "setting", "seed", *keys, "diverged", "command"])
    for run in sweep.runs:
        for seed, result in _finished(run, sweep, finished):
            values = ["never" if result.get(key) is None else result[key] for key in keys]
            writer.writerow([*run.label, seed, *values, bool(result.get("diverged")), run.command(seed)])
    return buffer.getvalue()


def failures(sweep: Sweep, trials: Sequence[FrozenTrial]) -> list[str]:
    """A line for each kind of error of jobs that have no result: how often, the reason, the first command."""
    done = {t.user_attrs.get(JOB) for t in trials if t.state != TrialState.FAIL}
    last = {t.user_attrs[JOB]: t for t in trials if t.state == TrialState.FAIL and JOB in t.user_attrs}
    open_jobs = [job for job in map(shlex.join, sweep.jobs) if job in last and job not in done]
    reasons = [last[job].user_attrs.get(ERROR, "its worker died, again and again") for job in open_jobs]
    first = dict(reversed(list(zip(reasons, open_jobs, strict=True))))
    return [f"{n} x {why}\n    first: python bench.py {first[why]}" for why, n in Counter(reasons).most_common()]


def _rank(goal: str, results: Sequence[KeptResult]) -> tuple[float, ...]:
    """Smaller is better: seeds without a number, then the mean, then accuracy where rounds are equal."""
    values = [None if result.get("diverged") else result[goal] for result in results]
    reached = [float(v) for v in values if v is not None]
    sign = 1 if GOALS[goal] == "minimize" else -1
    missed = (len(values) - len(reached)) / len(values)
    best = [result["best_accuracy"] or 0.0 for result in results]
    return missed, sign * math.fsum(reached) / len(reached) if reached else math.inf, -math.fsum(best) / len(best)


def _parameters(run: PlannedRun, runs: Sequence[PlannedRun]) -> str:
    common = set.intersection(*(set(r.overrides) for r in runs))
    return " ".join(word for word in run.overrides if word not in common) or "-"


def _cells(row: BestConfiguration) -> list[str]:
    tried = str(row.tried) if row.tried == row.planned else f"{row.tried} of {row.planned}"
    accuracies = [_interval(row.numbers(key), 100, 2) for key in ("final_accuracy", "best_accuracy")]
    seconds = _interval(row.numbers("seconds_per_round"), 1, 3).partition(" ")[0]
    rounds = _interval(row.numbers("rounds_to_target"), 1, 1, "never")
    return [*row.label, row.parameters, tried, str(len(row.results)), rounds, *accuracies, seconds, str(row.diverged)]


def _interval(values: Sequence[float | None], factor: float, digits: int, missing: str = "diverged") -> str:
    there = [factor * value for value in values if value is not None]
    missed = len(values) - len(there)
    if missed and missing == "never":
        return missed_text(missed, len(values))
    return interval_text(there, f".{digits}f") if there else missing


def _notes(sweep: Sweep, table: Sequence[BestConfiguration]) -> list[str]:
    budgets = {(row.planned, len(sweep.seeds)) for row in table}
    budget = ", ".join(
        f"{n} configuration{'s' * (n > 1)} x {seeds} seed{'s' * (seeds > 1)}" for n, seeds in sorted(budgets)
    )
    equal = "the same for every row" if len(budgets) == 1 else "not the same for every row: see `tried`"
    notes = [
        f"Source: {sweep.source}.",
        f"Best of each row's configurations: {GOAL_WORDS[sweep.goal]}, on the test set that is reported, as papers do.",
        f"Tuning budget: {budget}; {equal}.",
        f"Means over seeds {PLUS_MINUS} half the 95 % t interval; never (m of n): m of the n seeds missed the target.",
    ]
    return [f"- {note}" for note in notes]

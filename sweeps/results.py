"""What a sweep's trials add up to: the best parameters of each cell, mean and interval over seeds, and the budget."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from optuna.trial import FrozenTrial, TrialState

from bench.errors import program
from bench.metrics import ACCURACY, PLUS_MINUS, Metric
from bench.output.metrics_csv import csv_text
from bench.output.result import OF_METRIC, RunResult
from bench.output.seeds import SeedRuns, target_text
from sweeps.plan import PlannedRun, Sweep
from sweeps.queue import ERROR, JOB, RESULT

GOAL_WORDS = {
    "rounds_to_target": "fewest rounds to the target, then best {metric}",
    "final": "{extreme} final {metric}",
    "best": "{extreme} {metric} of any round",
}


@dataclass(frozen=True)
class SweepResult:
    """A run's result as a sweep counts it."""

    outcome: RunResult

    @property
    def metric(self) -> Metric:
        return self.outcome.metric

    def number(self, key: str) -> float | None:
        """Whatever a run measured before it diverged counts as never."""
        return None if self.outcome.has_diverged and key != "target" else self.outcome.number(key)


@dataclass(frozen=True)
class BestConfiguration:
    """One cell: its best configuration, over the seeds that are finished."""

    label: tuple[str, str, str]
    runs: SeedRuns[SweepResult]  # labelled by what tells it from the cell's other configurations
    tried: int  # configurations with a result
    planned: int


def by_job(trials: Iterable[FrozenTrial]) -> dict[str, SweepResult]:
    """The result of every finished job."""
    done = {t.user_attrs[JOB]: t.user_attrs[RESULT] for t in trials if t.state == TrialState.COMPLETE}
    return {job: SweepResult(RunResult.from_dict(kept, "The sweep's database")) for job, kept in done.items()}


def rows(sweep: Sweep, finished: Mapping[str, SweepResult]) -> list[BestConfiguration]:
    """One per cell that has a result, in the order of the sweep."""
    found = []
    for label, grid in sweep.grids.items():
        common = set.intersection(*(set(run.overrides) for run in grid))
        every = [_finished(run, sweep.seeds, finished, common) for run in grid]
        if tried := [runs for runs in every if len(runs)]:
            best = min(tried, key=lambda runs: _rank(sweep.goal, runs))
            found.append(BestConfiguration(label, best, len(tried), len(grid)))
    return found


def _finished(
    run: PlannedRun, seeds: Iterable[int], finished: Mapping[str, SweepResult], common: Collection[str] = ()
) -> SeedRuns[SweepResult]:
    jobs = {seed: shlex.join(run.words(seed)) for seed in seeds}
    parameters = " ".join(word for word in run.overrides if word not in common) or "-"
    return SeedRuns(parameters, {seed: finished[job] for seed, job in jobs.items() if job in finished})


def markdown(sweep: Sweep, table: Sequence[BestConfiguration]) -> str:
    """The table, then what to know of it."""
    head = ["method", "data set", "setting", "best parameters", "tried", "seeds"]
    head += [
        f"rounds to {target_text(row.runs for row in table)}",
        *(f"{which} {_metric(table).heading}" for which in OF_METRIC),
    ]
    head += ["s/round", "diverged"]
    return "\n".join([*lines_of([head, *(_cells(row) for row in table)]), "", *_notes(sweep, table)])


def lines_of(cells: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table that can be read as it is."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    text = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |" for line in cells]
    return [text[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *text[1:]]


def table_csv(sweep: Sweep, finished: Mapping[str, SweepResult]) -> str:
    """Every finished run of every cell, for other programs."""
    metric = next((result.metric for result in finished.values()), ACCURACY)
    keys = (*(f"{which}_{metric.name}" for which in OF_METRIC), "rounds_to_target", "seconds_per_round", "id")
    lines: list[list[object]] = [["method", "dataset", "setting", "seed", *keys, "diverged", "command"]]
    for run in sweep.runs:
        for seed, result in _finished(run, sweep.seeds, finished).by_seed.items():
            kept = result.outcome.to_dict()
            values = ["never" if kept.get(key) is None else kept[key] for key in keys]
            lines.append([*run.label, seed, *values, result.outcome.has_diverged, run.command(seed)])
    return csv_text(lines)


def failures(sweep: Sweep, trials: Sequence[FrozenTrial]) -> list[str]:
    """A line for each kind of error of jobs that have no result: how often, the reason, the first command."""
    done = {t.user_attrs.get(JOB) for t in trials if t.state != TrialState.FAIL}
    last = {t.user_attrs[JOB]: t for t in trials if t.state == TrialState.FAIL and JOB in t.user_attrs}
    open_jobs = [job for job in map(shlex.join, sweep.jobs) if job in last and job not in done]
    reasons = [last[job].user_attrs.get(ERROR, "its worker died, again and again") for job in open_jobs]
    first = dict(reversed(list(zip(reasons, open_jobs, strict=True))))
    return [f"{n} x {why}\n    first: {program()} {first[why]}" for why, n in Counter(reasons).most_common()]


def _rank(goal: str, runs: SeedRuns[SweepResult]) -> tuple[float, ...]:
    """Smaller is better: seeds without a number, then the mean, then the best of any round where rounds are equal."""
    numbers, metric = runs.numbers(goal), runs.metric
    loss = numbers.known.mean if goal == "rounds_to_target" else -metric.merit(numbers.known.mean)
    best = runs.each(lambda run: metric.merit(run.outcome.best or 0.0)).mean
    return numbers.missed / len(runs), loss if numbers.missed < len(runs) else math.inf, -best


def _metric(table: Sequence[BestConfiguration]) -> Metric:
    return table[0].runs.metric if table else ACCURACY


def _cells(row: BestConfiguration) -> list[str]:
    runs = row.runs
    tried = str(row.tried) if row.tried == row.planned else f"{row.tried} of {row.planned}"
    rounds = runs.numbers("rounds_to_target").text(".1f")
    measured, metric = [runs.numbers(key).known for key in (*OF_METRIC, "seconds_per_round")], runs.metric
    final, best = (n.times(metric.factor).text(f".{metric.digits}f", "diverged") for n in measured[:2])
    seconds = measured[2].text(".3f", "diverged").partition(" ")[0]
    return [*row.label, runs.label, tried, str(len(runs)), rounds, final, best, seconds, str(runs.diverged)]


def _notes(sweep: Sweep, table: Sequence[BestConfiguration]) -> list[str]:
    seeds, budgets = len(sweep.seeds), {row.planned for row in table}
    budget = ", ".join(f"{n} configuration{'s' * (n > 1)} x {seeds} seed{'s' * (seeds > 1)}" for n in sorted(budgets))
    equal = "the same for every row" if len(budgets) == 1 else "not the same for every row: see `tried`"
    metric = _metric(table)
    goal = GOAL_WORDS[sweep.goal].format(metric=metric.label, extreme="highest" if metric.higher else "lowest")
    notes = [
        f"Source: {sweep.source}.",
        f"Best of each row's configurations: {goal}, on the test set that is reported, as papers do.",
        f"Tuning budget: {budget}; {equal}.",
        f"Means over seeds {PLUS_MINUS} half the 95 % t interval; never (m of n): m of the n seeds missed the target.",
    ]
    return [f"- {note}" for note in notes]

"""What a search found beyond the paper's grid: were all methods tuned alike?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import optuna
from optuna.trial import FrozenTrial, TrialState

from bench.metrics import ACCURACY, Metric
from bench.output.result import RunResult
from sweeps.queue import RESULT
from sweeps.results import lines_of
from sweeps.search import GRID, LABEL, SearchQueue

HEAD = ["method", "data set", "setting"]
COUNTS = ["gain", "trials", "pruned", "failed"]


def markdown(search: SearchQueue) -> str:
    """One row per study: the best point of the paper's grid, and the best of all points tried."""
    metric = next(filter(None, map(_metric, search.studies)), ACCURACY)
    best = metric.with_unit("best")
    head = [*HEAD, f"grid: {best}", "grid: parameters", f"search: {best}", "search: parameters", *COUNTS]
    table = [_row(study, metric) for study in search.studies]
    notes = [
        f"Source of the grid: {search.sweep.source}.",
        f"Budget: {search.budget} trials for every row, the grid's points among them; seed {search.sweep.seeds[0]} "
        "only, so a gain of a point or two may be luck: re-run the best parameters with other seeds.",
        "Best: of any round, on the test set. Pruned: below the median of earlier trials at its round.",
    ]
    return "\n".join([*lines_of([head, *table]), "", *(f"- {note}" for note in notes)])


def _metric(study: optuna.Study) -> Metric | None:
    """Of its results, as far as it has some."""
    kept = (t.user_attrs[RESULT] for t in study.get_trials(deepcopy=False) if RESULT in t.user_attrs)
    return next((RunResult.from_dict(result, "The sweep's database").metric for result in kept), None)


def _row(study: optuna.Study, metric: Metric) -> list[str]:
    trials = study.get_trials(deepcopy=False)
    done = [t for t in trials if t.state == TrialState.COMPLETE]
    grid, all_of_them = _best([t for t in done if t.user_attrs.get(GRID)]), _best(done)
    gain = (
        f"{metric.factor * ((all_of_them.value or 0) - (grid.value or 0)):+.{metric.digits}f}"
        if grid and all_of_them
        else "-"
    )
    states = [trial.state for trial in trials]
    counts = [
        sum(s != TrialState.WAITING for s in states),
        states.count(TrialState.PRUNED),
        states.count(TrialState.FAIL),
    ]
    return [*study.user_attrs[LABEL], *_shown(grid, metric), *_shown(all_of_them, metric), gain, *map(str, counts)]


def _best(trials: Sequence[FrozenTrial]) -> FrozenTrial | None:
    return max(trials, key=lambda trial: -math.inf if trial.value is None else trial.value, default=None)


def _shown(trial: FrozenTrial | None, metric: Metric) -> tuple[str, str]:
    if trial is None:
        return "-", "-"
    number = metric.factor * metric.merit(trial.value or 0.0)
    return "diverged" if trial.value == -math.inf else f"{number:.{metric.digits}f}", " ".join(
        f"{key}={value:.4g}" for key, value in trial.params.items()
    )

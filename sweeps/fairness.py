"""What a search found beyond the paper's grid: were all methods tuned alike?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import optuna
from optuna.trial import FrozenTrial, TrialState

from sweeps.results import lines_of
from sweeps.search import GRID, LABEL, SearchQueue

HEAD = [
    *("method", "data set", "setting", "grid: best %", "grid: parameters", "search: best %", "search: parameters"),
    *("gain", "trials", "pruned", "failed"),
]


def markdown(search: SearchQueue) -> str:
    """One row per study: the best point of the paper's grid, and the best of all points tried."""
    table = [_row(study) for study in search.studies]
    notes = [
        f"Source of the grid: {search.sweep.source}.",
        f"Budget: {search.budget} trials for every row, the grid's points among them; seed {search.sweep.seeds[0]} "
        "only, so a gain of a point or two may be luck: re-run the best parameters with other seeds.",
        "Accuracy: the best of any round on the test set. Pruned: below the median of earlier trials at its round.",
    ]
    return "\n".join([*lines_of([HEAD, *table]), "", *(f"- {note}" for note in notes)])


def _row(study: optuna.Study) -> list[str]:
    trials = study.get_trials(deepcopy=False)
    done = [t for t in trials if t.state == TrialState.COMPLETE]
    grid, all_of_them = _best([t for t in done if t.user_attrs.get(GRID)]), _best(done)
    gain = f"{100 * ((all_of_them.value or 0) - (grid.value or 0)):+.2f}" if grid and all_of_them else "-"
    states = [trial.state for trial in trials]
    counts = [
        sum(s != TrialState.WAITING for s in states),
        states.count(TrialState.PRUNED),
        states.count(TrialState.FAIL),
    ]
    return [*study.user_attrs[LABEL], *_shown(grid), *_shown(all_of_them), gain, *map(str, counts)]


def _best(trials: Sequence[FrozenTrial]) -> FrozenTrial | None:
    return max(trials, key=lambda trial: trial.value or 0.0, default=None)


def _shown(trial: FrozenTrial | None) -> tuple[str, str]:
    if trial is None:
        return "-", "-"
    accuracy = "diverged" if trial.value == -math.inf else f"{100 * (trial.value or 0.0):.2f}"
    return accuracy, " ".join(f"{key}={value:.4g}" for key, value in trial.params.items())

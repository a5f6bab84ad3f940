"""sampler=tpe: the continuous space around a paper's grid, searched with the same budget for every method.

Each method, data set and setting of a sweep has a study of its own. The paper's grid points come first, then Optuna's
TPE goes on from them, so that what it finds beyond the grid can be compared with the best of the grid. The local rate,
which papers rarely give, is searched for every method. Trials that fall behind the median accuracy of earlier ones at
the same round are pruned.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from functools import cache, cached_property

import optuna
from optuna.distributions import FloatDistribution
from optuna.trial import FrozenTrial, TrialState

from sweeps.plan import Run, Sweep, merged
from sweeps.queue import JOB, Claim, Progress, take
from sweeps.storage import Storage

AROUND = 3.0  # how far beyond the ends of the grid
RATE = 10.0  # the same for the local rate, which is no part of the grid
STARTUP = 5  # trials that are never pruned, and before TPE learns
LABEL, GRID = "label", "grid"  # user attributes


class Cell:
    """One method in one setting on one data set."""

    def __init__(self, label: tuple[str, str, str], runs: list[Run], rate: float, seed: int) -> None:
        self.label, self.runs, self.seed = label, runs, seed
        self.rate = rate

    @cached_property
    def space(self) -> dict[str, FloatDistribution]:
        """The numbers that vary in its grid, and the local rate."""
        values: dict[str, list[str]] = {}
        for run in self.runs:
            for word in run.overrides:
                key, _, text = word.partition("=")
                values.setdefault(key, []).append(text)
        ranges = {key: _around([float(t) for t in texts], AROUND) for key, texts in values.items() if _vary(texts)}
        rates = [float(text) for text in values.get("lr", [])] or [self.rate]
        return {"lr": _around(rates, RATE), **{key: r for key, r in ranges.items() if key != "lr"}}

    @property
    def points(self) -> list[dict[str, float]]:
        """The grid itself, as points of the space."""
        found = []
        for run in self.runs:
            pairs = dict(word.split("=", 1) for word in run.overrides)
            found.append({key: float(pairs.get(key, self.rate)) for key in self.space})
        return found

    def words(self, params: Mapping[str, float]) -> tuple[str, ...]:
        overrides = self.runs[0].overrides
        for key, number in params.items():
            overrides = merged(overrides, f"{key}={number:.6g}")
        return (*overrides, f"seed={self.seed}")


class Search:
    """The studies of one sweep's cells; the first of its seeds is used."""

    goal = "best_accuracy"

    def __init__(self, sweep: Sweep, storage: Storage, trials: int) -> None:
        self.sweep, self.storage, self.budget = sweep, storage, trials
        self.cells: dict[str, Cell] = {}
        self.studies: list[optuna.Study] = []
        for label in dict.fromkeys(run.label for run in sweep.runs):
            runs = [run for run in sweep.runs if run.label == label]
            cell = Cell(label, runs, _rate(runs[0].overrides), sweep.seeds[0])
            self.cells[self._title(cell)] = cell
        with storage.exclusive():
            self.studies = [self._study(title, cell) for title, cell in self.cells.items()]

    def _title(self, cell: Cell) -> str:
        return f"{self.sweep.title} sampler=tpe: {' '.join(cell.label)}"

    def _study(self, title: str, cell: Cell) -> optuna.Study:
        study = optuna.create_study(
            study_name=title,
            storage=self.storage.optuna,
            direction="maximize",
            load_if_exists=True,
            sampler=optuna.samplers.TPESampler(seed=None, n_startup_trials=STARTUP, constant_liar=True),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=10),
        )
        if not study.user_attrs:
            study.set_user_attr(LABEL, list(cell.label))
            for point in cell.points[: self.budget]:
                study.enqueue_trial(point, user_attrs={GRID: True})
        return study

    def claim(self) -> Claim | None:
        """From the study that is furthest behind, so that an unfinished search is even."""
        with self.storage.exclusive():
            self.storage.retry_stale(self.studies)
            for study in sorted(self.studies, key=self._begun):
                if (claim := self._next(study)) is not None:
                    return claim
        return None

    def _begun(self, study: optuna.Study) -> int:
        return sum(t.state not in (TrialState.WAITING, TrialState.FAIL) for t in study.get_trials(deepcopy=False))

    def _next(self, study: optuna.Study) -> Claim | None:
        trials = study.get_trials(deepcopy=False)
        waiting = [t for t in trials if t.state == TrialState.WAITING]
        spent = sum(t.state != TrialState.WAITING and not _retried(t, trials) for t in trials)
        if not waiting and spent >= self.budget:
            return None
        cell = self.cells[study.study_name]
        if waiting:
            first = waiting[0]
            if not take(self.storage, first):
                return None
            trial = optuna.Trial(study, first._trial_id)
        else:
            trial = optuna.Trial(study, self.storage.optuna.create_new_trial(study._study_id))
            self.storage.optuna.record_heartbeat(trial._trial_id)
        params = {key: trial.suggest_float(key, d.low, d.high, log=d.log) for key, d in cell.space.items()}
        words = cell.words(params)
        trial.set_user_attr(JOB, shlex.join(words))
        return Claim(study, self.storage.optuna.get_trial(trial._trial_id), words)

    def watch(self, claim: Claim) -> Callable[[int, float | None], None]:
        """Prunes a trial that is worse than most others were at its round."""
        trial = optuna.Trial(claim.study, claim.id)

        def report(round: int, accuracy: float | None) -> None:
            if accuracy is None or math.isnan(accuracy):
                return
            trial.report(accuracy, round)
            if not claim.trial.user_attrs.get(GRID) and trial.should_prune():
                raise optuna.TrialPruned

        return report

    def trials(self) -> list[FrozenTrial]:
        return [trial for study in self.studies for trial in study.get_trials(deepcopy=False)]

    def retry_failed(self) -> int:
        return 0  # a search draws another point instead

    def state(self) -> Progress:
        finished = running = failed = 0
        for study in self.studies:
            trials = study.get_trials(deepcopy=False)
            finished += sum(t.state in (TrialState.COMPLETE, TrialState.PRUNED) for t in trials)
            running += sum(t.state == TrialState.RUNNING for t in trials)
            failed += sum(t.state == TrialState.FAIL and not _retried(t, trials) for t in trials)
        return Progress(self.budget * len(self.studies), finished, running, failed)


def _retried(trial: FrozenTrial, trials: list[FrozenTrial]) -> bool:
    return any(trial.number in other.system_attrs.get("retry_history", []) for other in trials)


def _vary(texts: list[str]) -> bool:
    try:
        return len({float(text) for text in texts}) > 1
    except ValueError:
        return False


def _around(values: list[float], factor: float) -> FloatDistribution:
    """From the least over `factor` to the greatest times it, in logarithm where the sign allows."""
    low, high = min(values), max(values)
    if low > 0:
        return FloatDistribution(low / factor, high * factor, log=True)
    if high < 0:
        return FloatDistribution(low * factor, high / factor)
    margin = (high - low) / 2
    return FloatDistribution(low - margin, high + margin)


def _rate(overrides: tuple[str, ...]) -> float:
    """The local rate where nothing else is said; it does not depend on the method."""
    return _protocol_rate(tuple(word for word in overrides if not word.startswith("algo")))


@cache
def _protocol_rate(words: tuple[str, ...]) -> float:
    from bench.prepare import compose

    return float(compose.config(list(words))["lr"])

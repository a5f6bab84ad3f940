"""sampler=tpe: the continuous space around a paper's grid, searched with the same budget for every method.

Each method, data set and setting of a sweep has a study of its own. The paper's grid points come first, then Optuna's
TPE goes on from them, so that what it finds beyond the grid can be compared with the best of the grid. The local rate,
which papers rarely give, is searched for every method. Trials that fall behind the median of earlier ones at
the same round are pruned.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import optuna
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState

from sweeps.plan import PlannedRun, Sweep, merged, pairs, texts_by_key
from sweeps.queue import JOB, QueueState, TrialQueue
from sweeps.storage import Storage

AROUND = 3.0  # how far beyond the ends of the grid
RATE = 10.0  # the same for the local rate, which is no part of the grid
STARTUP = 5  # trials that are never pruned, and before TPE learns
LABEL, GRID = "label", "grid"  # user attributes


@dataclass(frozen=True)
class SearchSpace:
    """What is searched for one method in one setting on one data set."""

    label: tuple[str, str, str]
    runs: list[PlannedRun]
    rate: float  # the protocol's local rate
    seed: int

    @cached_property
    def ranges(self) -> dict[str, FloatDistribution]:
        """The numbers that vary in its grid, and the local rate."""
        texts = texts_by_key(run.overrides for run in self.runs)
        ranges = {key: _around([float(t) for t in values], AROUND) for key, values in texts.items() if _vary(values)}
        rates = [float(text) for text in texts.get("lr", [])] or [self.rate]
        return {"lr": _around(rates, RATE), **{key: r for key, r in ranges.items() if key != "lr"}}

    @property
    def points(self) -> list[dict[str, float]]:
        """The grid itself, as points of the space."""
        grid = [pairs(run.overrides) for run in self.runs]
        return [{key: float(point.get(key, self.rate)) for key in self.ranges} for point in grid]

    def words(self, params: Mapping[str, float]) -> tuple[str, ...]:
        overrides = self.runs[0].overrides
        for key, number in params.items():
            overrides = merged(overrides, f"{key}={number:.6g}")
        return (*overrides, f"seed={self.seed}")


class SearchQueue(TrialQueue):
    """A study for each method, data set and setting of a sweep; the first of its seeds is used."""

    goal = "best"

    def __init__(self, sweep: Sweep, storage: Storage, trials: int) -> None:
        super().__init__(sweep, storage)
        self.budget = trials
        self.spaces: dict[str, SearchSpace] = {}
        for label, runs in sweep.grids.items():
            rate = _rate(tuple(word for word in runs[0].overrides if not word.startswith("algo")))  # the same for all
            self.spaces[f"{self.title}: {' '.join(label)}"] = SearchSpace(label, runs, rate, sweep.seeds[0])
        self.studies = storage.exclusively(lambda: [self._study(t, space) for t, space in self.spaces.items()])

    @property
    def title(self) -> str:
        return f"{self.sweep.title} sampler=tpe"

    def _study(self, title: str, space: SearchSpace) -> optuna.Study:
        study = optuna.create_study(
            study_name=title,
            storage=self.storage.optuna,
            direction="maximize",
            load_if_exists=True,
            sampler=optuna.samplers.TPESampler(seed=None, n_startup_trials=STARTUP, constant_liar=True),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=10),
        )
        if not study.user_attrs:
            study.set_user_attr(LABEL, list(space.label))
            for point in space.points[: self.budget]:
                study.enqueue_trial(point, user_attrs={GRID: True})
        return study

    def _enqueue(self, study: optuna.Study) -> bool:
        """A point that TPE chooses, while there is budget."""
        left = len(_last_attempts(study)) < self.budget
        if left:
            study.enqueue_trial({})
        return left

    def _words(self, trial: optuna.Trial) -> tuple[str, ...]:
        space = self.spaces[trial.study.study_name]
        params = {key: trial.suggest_float(key, d.low, d.high, log=d.log) for key, d in space.ranges.items()}
        words = space.words(params)
        trial.set_user_attr(JOB, shlex.join(words))
        return words

    def watch(self, trial: optuna.Trial) -> Callable[[int, float | None], None]:
        """Prunes a trial that is worse than most others were at its round."""
        of_grid = trial.user_attrs.get(GRID)

        def report(round: int, merit: float | None) -> None:
            if merit is None or math.isnan(merit):
                return
            trial.report(merit, round)
            if not of_grid and trial.should_prune():
                raise optuna.TrialPruned

        return report

    def state(self) -> QueueState:
        states = [state for study in self.studies for state in _last_attempts(study)]
        finished = states.count(TrialState.COMPLETE) + states.count(TrialState.PRUNED)
        running, failed = states.count(TrialState.RUNNING), states.count(TrialState.FAIL)
        return QueueState(self.budget * len(self.studies), finished, running, failed)


def _last_attempts(study: optuna.Study) -> list[TrialState]:
    """The states of its trials, without those of dead workers that were tried again."""
    trials = study.get_trials(deepcopy=False)
    retried = {number for trial in trials for number in trial.system_attrs.get("retry_history", [])}
    return [trial.state for trial in trials if trial.number not in retried]


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


@cache
def _rate(words: tuple[str, ...]) -> float:
    """The local rate where nothing else is said."""
    from bench.prepare import compose

    return float(compose.config(words)["lr"])

"""A sweep's trials in its study: the grid enqueued block by block, each trial claimed by one worker only."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState

from bench.errors import UserError
from sweeps.plan import GOALS, Run, Sweep
from sweeps.storage import Storage

BLOCK = 20  # Optuna's cost per enqueued trial grows with the number that wait
JOB, RECORD, RESULT, ERROR = "job", "record", "result", "error"  # user attributes of a trial
optuna.logging.set_verbosity(optuna.logging.WARNING)


@dataclass(frozen=True)
class Claim:
    """A trial that this worker and no other is to run."""

    study: optuna.Study
    trial: FrozenTrial
    words: tuple[str, ...]  # the benchmark's overrides, seed included

    @property
    def id(self) -> int:
        return self.trial._trial_id

    @property
    def record(self) -> Path | None:
        """Of an earlier attempt at it."""
        return Path(self.trial.user_attrs[RECORD]) if RECORD in self.trial.user_attrs else None

    @property
    def command(self) -> str:
        *overrides, seed = self.words
        return Run("", "", "", tuple(overrides)).command(int(seed.removeprefix("seed=")))


class Queue:
    """The grid of a sweep."""

    def __init__(self, sweep: Sweep, storage: Storage) -> None:
        self.sweep, self.storage, self.goal = sweep, storage, sweep.goal
        self.jobs = [(*overrides, f"seed={seed}") for overrides, seed in sweep.jobs]
        with storage.exclusive():
            self.study = optuna.create_study(
                study_name=sweep.title,
                storage=storage.optuna,
                direction=GOALS[sweep.goal],
                load_if_exists=True,
                sampler=optuna.samplers.RandomSampler(seed=0),
            )
            if not self.study.user_attrs:
                self.study.set_user_attr("source", sweep.source)
                self.study.set_user_attr("goal", sweep.goal)

    @property
    def studies(self) -> list[optuna.Study]:
        return [self.study]

    def claim(self) -> Claim | None:
        """The next trial to run, or None: nothing waits (others may still be running)."""
        with self.storage.exclusive():
            self.storage.retry_stale(self.studies)
            waiting = self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
            if not waiting and self._enqueue():
                waiting = self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
            for trial in waiting:
                if take(self.storage, trial):
                    return Claim(self.study, trial, tuple(shlex.split(trial.user_attrs[JOB])))
        return None

    def _enqueue(self) -> int:
        """The next block of the grid, in its order."""
        known = {trial.user_attrs.get(JOB) for trial in self.study.get_trials(deepcopy=False)}
        block = [job for job in self.jobs if shlex.join(job) not in known][:BLOCK]
        for job in block:
            self._add(job)
        return len(block)

    def _add(self, job: tuple[str, ...]) -> None:
        pairs = dict(word.split("=", 1) for word in job)
        params = {key: _value(text, self.space[key]) for key, text in pairs.items()}
        trial = optuna.create_trial(
            state=TrialState.WAITING,
            params=params,
            distributions={key: self.space[key] for key in params},
            user_attrs={JOB: shlex.join(job)},
        )
        try:
            self.study.add_trial(trial)
        except ValueError as error:
            raise UserError(
                f"The study '{self.sweep.title}' has trials with other values than sweeps/ has now ({error}): "
                "start afresh with another --storage."
            ) from None

    @cached_property
    def space(self) -> dict[str, BaseDistribution]:
        """What each key can be in this sweep: a number if it always is one, otherwise a word."""
        values: dict[str, set[str]] = defaultdict(set)
        for job in self.jobs:
            for word in job:
                key, _, text = word.partition("=")
                values[key].add(text)
        return {key: _distribution(texts) for key, texts in values.items()}

    def retry_failed(self) -> int:
        """Puts jobs that failed back into the queue."""
        with self.storage.exclusive():
            failed = [job for job in self.jobs if progress(self.trials(), [job]).failed]
            for job in failed:
                self._add(job)
        return len(failed)

    def watch(self, claim: Claim) -> Callable[[int, float | None], None]:
        """A grid runs every trial to its end."""
        return lambda round, accuracy: None

    def trials(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    def state(self) -> Progress:
        return progress(self.trials(), self.jobs)


@dataclass(frozen=True)
class Progress:
    """How many jobs are where; a job that failed and was tried again counts as what it is now."""

    total: int
    finished: int
    running: int
    failed: int

    @property
    def open(self) -> int:
        return self.total - self.finished - self.failed


def progress(trials: Iterable[FrozenTrial], jobs: Iterable[tuple[str, ...]]) -> Progress:
    wanted = {shlex.join(job) for job in jobs}
    states: dict[str, set[TrialState]] = defaultdict(set)
    for trial in trials:
        if (job := trial.user_attrs.get(JOB)) in wanted:
            states[job].add(trial.state)
    done = [job for job, seen in states.items() if seen & {TrialState.COMPLETE, TrialState.PRUNED}]
    busy = [job for job, seen in states.items() if job not in done and TrialState.RUNNING in seen]
    failed = [job for job, seen in states.items() if seen == {TrialState.FAIL}]
    return Progress(len(wanted), len(done), len(busy), len(failed))


def take(storage: Storage, trial: FrozenTrial) -> bool:
    """False if it is another's; call it with the lock held."""
    storage.optuna.record_heartbeat(trial._trial_id)  # first, or a worker killed here would never be missed
    try:
        return bool(storage.optuna.set_trial_state_values(trial._trial_id, state=TrialState.RUNNING))
    except UpdateFinishedTrialError:
        return False


def value(goal: str, result: Mapping[str, Any]) -> float:
    """What Optuna compares: never reached, and diverged, are worse than any number."""
    number = None if result.get("diverged") else result[goal]
    if number is None:
        return float("inf") if GOALS[goal] == "minimize" else float("-inf")
    return float(number)


def _distribution(texts: set[str]) -> BaseDistribution:
    try:
        numbers = [float(text) for text in texts]
    except ValueError:
        return CategoricalDistribution(sorted(texts))
    return FloatDistribution(min(numbers), max(numbers))


def _value(text: str, distribution: BaseDistribution) -> float | str:
    return text if isinstance(distribution, CategoricalDistribution) else float(text)

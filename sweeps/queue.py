"""A sweep's trials in its study: the grid enqueued block by block, each trial claimed by one worker only."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.trial import FrozenTrial, TrialState

from bench.errors import UserError
from bench.output.result import RunResult
from sweeps.plan import GOALS, Sweep, pairs, texts_by_key
from sweeps.storage import Storage

BLOCK = 20  # Optuna's cost per enqueued trial grows with the number that wait
JOB, RECORD, RESULT, ERROR, CODE = "job", "record", "result", "error", "code"  # user attributes of a trial
ASIDE = "set_aside"  # of a study: the numbers of trials that count no more
optuna.logging.set_verbosity(optuna.logging.WARNING)


@dataclass(frozen=True)
class ClaimedTrial:
    """A trial that this worker and no other is to run."""

    trial: optuna.Trial
    words: tuple[str, ...]  # the benchmark's overrides, seed included

    @property
    def record(self) -> Path | None:
        """Of an earlier attempt at it."""
        attributes = self.trial.user_attrs
        return Path(attributes[RECORD]) if RECORD in attributes else None


@dataclass(frozen=True)
class QueueState:
    """How many jobs are where; a job that failed and was tried again counts as what it is now."""

    total: int
    finished: int
    running: int
    failed: int

    @property
    def open(self) -> int:
        return self.total - self.finished - self.failed


class TrialQueue(ABC):
    """The studies of a sweep, of which any number of workers claim one trial after the other."""

    goal: str
    studies: Sequence[optuna.Study]

    def __init__(self, sweep: Sweep, storage: Storage) -> None:
        self.sweep, self.storage = sweep, storage

    @property
    def title(self) -> str:
        return self.sweep.title

    def claim(self) -> ClaimedTrial | None:
        """The next trial to run, or None: nothing waits (others may still be running).

        From the study that is furthest behind, so that what is unfinished is even.
        """
        return self.storage.exclusively(self._claim)

    def _claim(self) -> ClaimedTrial | None:
        self.storage.retry_stale(self.studies)
        for study in sorted(self.studies, key=_begun):
            while (trial := self.storage.ask(study)) is not None or self._enqueue(study):
                if trial is not None and (words := self._words(trial)) is not None:
                    return ClaimedTrial(trial, words)
        return None

    @abstractmethod
    def _enqueue(self, study: optuna.Study) -> bool:
        """Adds trials to a study in which none waits; False: there are no more."""

    @abstractmethod
    def _words(self, trial: optuna.Trial) -> tuple[str, ...] | None:
        """What the trial is to run; None: it is none of ours, and has failed."""

    @abstractmethod
    def state(self) -> QueueState:
        """How far it is."""

    def is_over(self) -> bool:
        """Is there nothing left for a worker, whatever becomes of the others?"""
        return not self.state().open

    def watch(self, trial: optuna.Trial) -> Callable[[int, float | None], None]:
        """What is told every round and the merit of its metric: by default nothing, a trial runs to its end."""
        return lambda round, merit: None

    def retry_failed(self) -> int:
        """Puts what failed back into the queue, if nothing else takes its place; returns how many."""
        return 0

    def set_aside(self, numbers: Collection[int]) -> None:
        """These finished trials count no more: their jobs run again."""
        raise UserError("--rerun is for grids; a search starts afresh with another --storage.")

    def trials(self) -> list[FrozenTrial]:
        return [trial for study in self.studies for trial in counted(study)]

    def finished(self) -> list[FrozenTrial]:
        """Those with a result."""
        return [trial for trial in self.trials() if trial.state == TrialState.COMPLETE and JOB in trial.user_attrs]


class GridQueue(TrialQueue):
    """The grid of a sweep, in one study."""

    def __init__(self, sweep: Sweep, storage: Storage) -> None:
        super().__init__(sweep, storage)
        self.goal = sweep.goal
        self.study = storage.exclusively(self._opened)
        self.studies = [self.study]

    def _opened(self) -> optuna.Study:
        study = optuna.create_study(
            study_name=self.title,
            storage=self.storage.optuna,
            direction=GOALS[self.sweep.goal],
            load_if_exists=True,
            sampler=optuna.samplers.RandomSampler(seed=0),
        )
        if not study.user_attrs:
            study.set_user_attr("source", self.sweep.source)
            study.set_user_attr("goal", self.sweep.goal)
        return study

    def _words(self, trial: optuna.Trial) -> tuple[str, ...] | None:
        """By the sweep as it is here: what a database says is compared with it, and never run."""
        job = trial.user_attrs.get(JOB)
        words = next((words for words in self.sweep.jobs if shlex.join(words) == job), None)
        if words is None:
            trial.set_user_attr(ERROR, "The database has a job that is none of this sweep's.")
            trial.study.tell(trial, state=TrialState.FAIL)
        return words

    def _enqueue(self, study: optuna.Study) -> bool:
        """The next block of the grid, in its order."""
        known = {trial.user_attrs.get(JOB) for trial in self.trials()}
        block = [job for job in self.sweep.jobs if shlex.join(job) not in known][:BLOCK]
        for job in block:
            self._add(job)
        return bool(block)

    def _add(self, job: tuple[str, ...]) -> None:
        given = pairs(job)
        space = {key: self.space[key] for key in given}
        words = {key for key, distribution in space.items() if isinstance(distribution, CategoricalDistribution)}
        trial = optuna.create_trial(
            state=TrialState.WAITING,
            params={key: text if key in words else float(text) for key, text in given.items()},
            distributions=space,
            user_attrs={JOB: shlex.join(job)},
        )
        try:
            self.study.add_trial(trial)
        except ValueError as error:
            raise UserError(
                f"The study '{self.title}' has trials with other values than sweeps/ has now ({error}): "
                "start afresh with another --storage."
            ) from None

    @cached_property
    def space(self) -> dict[str, BaseDistribution]:
        """What each key can be in this sweep: a number if it always is one, otherwise a word."""
        return {key: _distribution(texts) for key, texts in texts_by_key(self.sweep.jobs).items()}

    def retry_failed(self) -> int:
        def retry() -> int:
            states = self._states()
            failed = [job for job in self.sweep.jobs if states[shlex.join(job)] == {TrialState.FAIL}]
            for job in failed:
                self._add(job)
            return len(failed)

        return self.storage.exclusively(retry)

    def finished(self) -> list[FrozenTrial]:
        jobs = set(map(shlex.join, self.sweep.jobs))
        return [trial for trial in super().finished() if trial.user_attrs[JOB] in jobs]

    def set_aside(self, numbers: Collection[int]) -> None:
        def note() -> None:
            self.study.set_user_attr(ASIDE, sorted({*self.study.user_attrs.get(ASIDE, []), *numbers}))

        self.storage.exclusively(note)

    def state(self) -> QueueState:
        states = list(self._states().values())
        done = [bool(seen & {TrialState.COMPLETE, TrialState.PRUNED}) for seen in states]
        running = sum(TrialState.RUNNING in seen and not ended for seen, ended in zip(states, done, strict=True))
        return QueueState(len(states), sum(done), running, states.count({TrialState.FAIL}))

    def _states(self) -> dict[str, set[TrialState]]:
        """Of all trials of every job."""
        states: dict[str, set[TrialState]] = {shlex.join(job): set() for job in self.sweep.jobs}
        for trial in self.trials():
            if (job := trial.user_attrs.get(JOB)) in states:
                states[job].add(trial.state)
        return states


def counted(study: optuna.Study) -> list[FrozenTrial]:
    """Without those that were set aside."""
    aside = set(study.user_attrs.get(ASIDE, []))
    return [trial for trial in study.get_trials(deepcopy=False) if trial.number not in aside]


def words_of(trial: FrozenTrial) -> tuple[str, ...]:
    """What the database says that it ran: to be read, never to be run."""
    return tuple(shlex.split(trial.user_attrs[JOB]))


def _begun(study: optuna.Study) -> int:
    return sum(t.state not in (TrialState.WAITING, TrialState.FAIL) for t in study.get_trials(deepcopy=False))


def value(goal: str, result: RunResult) -> float:
    """What Optuna compares: rounds, or the merit of a metric; never reached, and diverged, are worse than any."""
    number = None if result.has_diverged else result.number(goal)
    if number is None:
        return float("inf") if GOALS[goal] == "minimize" else float("-inf")
    return float(number) if goal == "rounds_to_target" else result.metric.merit(number)


def _distribution(texts: Collection[str]) -> BaseDistribution:
    try:
        numbers = [float(text) for text in texts]
    except ValueError:
        return CategoricalDistribution(sorted(set(texts)))
    return FloatDistribution(min(numbers), max(numbers))

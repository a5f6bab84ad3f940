"""A database that is away for a while, restarted or behind a network that is down, is waited for."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy import text
from sqlalchemy.exc import InterfaceError, OperationalError

from bench.errors import UserError, first_line

T = TypeVar("T")
AWAY_SECONDS = 300.0
AGAIN_SECONDS = 1.0
STILL = 0.4  # of the grace period, in which a worker that is alive sends a heartbeat
BEATS = text(
    "SELECT t.trial_id, h.heartbeat FROM trials t JOIN trial_heartbeats h ON h.trial_id = t.trial_id "
    "WHERE t.state = 'RUNNING' AND t.study_id = :study"
)


class DatabaseAway(UserError):
    """It did not come back in time."""


class Patience:
    """Does work that needs a database again until it is there, for so many seconds."""

    def __init__(self, name: str, seconds: float) -> None:
        self.name, self.seconds = name, seconds
        self.waiting = False
        self.back = -math.inf  # when the database was last found again
        self._inside = False

    def call(self, work: Callable[[], T]) -> T:
        """What `work` returns; within it nothing else is repeated."""
        if self._inside:
            return work()
        began, self._inside = time.monotonic(), True
        try:
            while True:
                try:
                    found = work()
                    break
                except Exception as error:
                    if not is_away(error) or not self.seconds:
                        raise
                    self._wait(began, error)
            if self.waiting:
                self.back = time.monotonic()
                print(f"The database is back after {self.back - began:.0f} s.", file=sys.stderr, flush=True)
            return found
        finally:
            self._inside = self.waiting = False

    def _wait(self, began: float, error: Exception) -> None:
        if time.monotonic() - began > self.seconds:
            raise DatabaseAway(
                f"The database {self.name} has been away for {self.seconds:.0f} s ({reason(error)}): nothing is lost; "
                f"the same command goes on once it is back."
            ) from None
        if not self.waiting:
            print(
                f"waiting for the database {self.name} ({reason(error)}), {self.seconds:.0f} s at most",
                file=sys.stderr,
                flush=True,
            )
        self.waiting = True
        time.sleep(AGAIN_SECONDS)


def is_away(error: BaseException) -> bool:
    """Whether the same may work later: no connection, a server that starts, another that writes a SQLite file."""
    cause = error.__cause__ if isinstance(error, StorageInternalError) else error
    if not isinstance(cause, OperationalError | InterfaceError):
        return False
    said = str(cause.orig)
    return not type(cause.orig).__module__.startswith("sqlite") or "locked" in said or "busy" in said


def reason(error: BaseException) -> str:
    """The database's own first line."""
    cause = error.__cause__ if isinstance(error, StorageInternalError) else error
    return first_line(getattr(cause, "orig", None) or cause or error)


class PatientStorage(RDBStorage):
    """Optuna's storage; each of its transactions waits for a database that is away."""

    def __init__(self, patience: Patience, *args: Any, **more: Any) -> None:
        self.patience = patience
        self._beats: dict[int, tuple[str, float]] = {}  # of a trial: its last heartbeat, and when that was first seen
        super().__init__(*args, **more)

    def _get_stale_trial_ids(self, study_id: int) -> list[int]:
        """Clocks jump: a trial that is late by the database's clock has to stand still while we look, for longer than
        heartbeats are apart, and one that stands still for the whole grace period is late whatever the clock says."""
        late, now = set(super()._get_stale_trial_ids(study_id)), time.monotonic()
        with self.engine.connect() as connection:
            rows = connection.execute(BEATS, {"study": study_id}).all()
        for trial, beat in rows:
            before = self._beats.get(trial, ("", now))
            self._beats[trial] = before if before[0] == str(beat) else (str(beat), now)
        still = {trial: now - self._beats[trial][1] for trial, _ in rows}
        return [t for t, seconds in still.items() if seconds > (STILL if t in late else 1.0) * (self.grace_period or 0)]


def _patient(method: Callable[..., T]) -> Callable[..., T]:
    @wraps(method)
    def call(self: PatientStorage, *args: Any, **more: Any) -> T:
        return self.patience.call(lambda: method(self, *args, **more))

    return call


_OF_ITS_CACHE = ("_create_new_trial", "_get_best_trial_id", "_get_trials", "_set_trial_param")
for _name in vars(RDBStorage):
    if _name.startswith(("get_", "set_", "create_")) or _name in _OF_ITS_CACHE:
        setattr(PatientStorage, _name, _patient(getattr(RDBStorage, _name)))

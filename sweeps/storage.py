"""The database that a sweep's workers share: SQLite in one file, or PostgreSQL for many machines."""

from __future__ import annotations

import fcntl
import math
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import optuna
from optuna.trial import TrialState
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from bench.errors import UserError
from bench.record import make_folder
from sweeps.patience import AWAY_SECONDS, Patience, PatientStorage, is_away, reason

T = TypeVar("T")
LOCK = 0x666564  # PostgreSQL knows its advisory locks by number: "fed"
LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC  # never another's file behind a link
RETRIES = 3  # of a trial whose worker died: it may be what kills them
BUSY_SECONDS = 10  # how long SQLite waits for another writer, before we say that we wait
REACH_SECONDS = 10  # for a connection to PostgreSQL, and for an answer of a machine that is gone


@dataclass(frozen=True)
class StorageAddress:
    """Where the studies are, and how long a silent worker counts as alive."""

    url: str
    grace: int = 120  # seconds

    @property
    def parsed(self) -> URL:
        try:
            url = make_url(self.url)
        except ArgumentError:
            raise UserError(f"--storage {self.shown} is not the address of a database: {FORMS}.") from None
        if url.get_backend_name() == "postgresql":
            return url.set(drivername="postgresql+psycopg")
        if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
            raise UserError(f"--storage {self.shown} is neither a SQLite file nor a PostgreSQL database: {FORMS}.")
        return url

    @property
    def shown(self) -> str:
        """Without its password, for whoever looks at a terminal or a log."""
        scheme, _, rest = self.url.rpartition("://")
        hidden = re.sub(r"^([^:@/]*):.*@", r"\1:***@", rest)
        return re.sub(r"(password=)[^&]*", r"\1***", f"{scheme}://{hidden}" if scheme else hidden)

    @property
    def connect_args(self) -> dict[str, Any]:
        if self.file is not None:
            return {"timeout": BUSY_SECONDS}
        return {"connect_timeout": REACH_SECONDS, "tcp_user_timeout": 1000 * REACH_SECONDS}

    @property
    def file(self) -> Path | None:
        """Of SQLite."""
        return Path(self.parsed.database or "") if self.parsed.get_backend_name() == "sqlite" else None


FORMS = "use sqlite:///folder/file.db or postgresql://user:password@host/name"


class Storage:
    """Optuna's storage, and a lock that only one worker in all holds; a worker that dies lets go of it.

    A database that goes away later is waited for; one that is not there to begin with only if this is `patient`.
    """

    def __init__(self, address: StorageAddress, patient: bool = False) -> None:
        self.address = address
        self.patience = Patience(address.shown, AWAY_SECONDS if patient else 0.0)
        self._beat_seconds = max(1, address.grace // 4)
        if (file := address.file) is not None:
            make_folder(file.parent)
        self._looked = -math.inf
        try:
            self.optuna = self.exclusively(self._open)  # two workers that both create the tables would be one too many
        except (SQLAlchemyError, optuna.exceptions.StorageInternalError, RuntimeError, OSError) as error:
            said = reason(error).replace(str(address.parsed.password or "\0"), "***")
            raise UserError(f"Cannot use the database {address.shown}: {said}.") from None
        self.patience.seconds = AWAY_SECONDS

    def _open(self) -> PatientStorage:
        address = self.address
        with _experimental():
            return PatientStorage(
                self.patience,
                address.parsed.render_as_string(hide_password=False),
                engine_kwargs={"connect_args": address.connect_args, "pool_pre_ping": address.file is None},
                heartbeat_interval=self._beat_seconds,
                grace_period=address.grace,
                heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=RETRIES),
            )

    def exclusively(self, work: Callable[[], T]) -> T:
        """What `work` returns, by one worker at a time: what it reads is still true when it is acted upon. It begins
        again when the database, and with it the lock, was away meanwhile."""
        return self.patience.call(lambda: self._locked(work))

    def _locked(self, work: Callable[[], T]) -> T:
        address = self.address
        if (file := address.file) is not None:
            with os.fdopen(os.open(file.with_name(file.name + ".lock"), LOCK_FLAGS, 0o666)) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                return work()
        options = {"poolclass": NullPool, "isolation_level": "AUTOCOMMIT", "connect_args": address.connect_args}
        with create_engine(address.parsed, **options).connect() as connection:  # closing it lets go of the lock
            connection.execute(text(f"SELECT pg_advisory_lock({LOCK})"))
            return work()

    def retry_stale(self, studies: Iterable[optuna.Study]) -> None:
        """Trials whose worker has been silent for too long fail and wait again; looks a few times within that span, and
        not while others may still be finding the database again. Call it with the lock held."""
        grace, now = self.address.grace, time.monotonic()
        if now - self._looked <= grace / 4 or now - self.patience.back <= grace / 2:
            return
        self._looked = now
        with _experimental():
            for study in studies:
                optuna.storages.fail_stale_trials(study)

    def ask(self, study: optuna.Study) -> optuna.Trial | None:
        """The trial that has waited longest, now this worker's, or None; call it with the lock held."""
        waiting = study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
        if not waiting:
            return None
        # first, or a worker killed here would never be missed
        self.optuna.record_heartbeat(self._trial_id(study, waiting[0].number))
        with _experimental():
            return study.ask()

    def release(self, trial: optuna.Trial) -> None:
        """It waits again, for whoever asks next."""
        self.optuna.set_trial_state_values(self._trial_id(trial.study, trial.number), TrialState.WAITING)

    @contextmanager
    def heartbeat(self, trial: optuna.Trial) -> Iterator[None]:
        """Tells the others that this worker is alive; while the database is away nobody asks."""
        ended, trial_id = threading.Event(), self._trial_id(trial.study, trial.number)

        def beat() -> None:
            while not ended.wait(self._beat_seconds):
                try:
                    self.optuna.record_heartbeat(trial_id)
                except Exception as error:
                    if not is_away(error):
                        raise
                    self.patience.back = time.monotonic()

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def study_id(self, study: optuna.Study) -> int:
        return self.optuna.get_study_id_from_name(study.study_name)

    def _trial_id(self, study: optuna.Study, number: int) -> int:
        return self.optuna.get_trial_id_from_study_id_trial_number(self.study_id(study), number)


@contextmanager
def _experimental() -> Iterator[None]:
    """Optuna warns that heartbeats are experimental, and that who asks for a trial has to send them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

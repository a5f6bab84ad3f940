"""The database that a sweep's workers share: SQLite in one file, or PostgreSQL for many machines."""

from __future__ import annotations

import fcntl
import math
import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.trial import TrialState
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from bench.errors import UserError
from bench.record import make_folder

LOCK = 0x666564  # PostgreSQL knows its advisory locks by number: "fed"
RETRIES = 3  # of a trial whose worker died: it may be what kills them
BUSY_SECONDS = 120  # how long SQLite waits for another writer


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
            raise UserError(f"--storage {self.url} is not the address of a database: {FORMS}.") from None
        if url.get_backend_name() == "postgresql":
            return url.set(drivername="postgresql+psycopg")
        if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
            raise UserError(f"--storage {self.url} is neither a SQLite file nor a PostgreSQL database: {FORMS}.")
        return url

    @property
    def file(self) -> Path | None:
        """Of SQLite."""
        return Path(self.parsed.database or "") if self.parsed.get_backend_name() == "sqlite" else None


FORMS = "use sqlite:///folder/file.db or postgresql://user:password@host/name"


class Storage:
    """Optuna's storage, and a lock that only one worker in all holds; a worker that dies lets go of it."""

    def __init__(self, address: StorageAddress) -> None:
        self.address = address
        self._beat_seconds = max(1, address.grace // 4)
        if (file := address.file) is not None:
            make_folder(file.parent)
        self._connection: Connection | None = None
        self._looked = -math.inf
        try:
            with self.exclusive():  # two workers that both create the tables would be one too many
                self.optuna = self._open()
        except (SQLAlchemyError, optuna.exceptions.StorageInternalError, RuntimeError, OSError) as error:
            reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0].rstrip(".")
            raise UserError(f"Cannot use the database {address.parsed!r}: {reason}.") from None

    def _open(self) -> optuna.storages.RDBStorage:
        address = self.address
        of_file = {"connect_args": {"timeout": BUSY_SECONDS}} if address.file is not None else {"pool_pre_ping": True}
        with _experimental():
            return optuna.storages.RDBStorage(
                address.parsed.render_as_string(hide_password=False),
                engine_kwargs=of_file,
                heartbeat_interval=self._beat_seconds,
                grace_period=address.grace,
                heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=RETRIES),
            )

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """One worker at a time: what is read in here is still true when it is acted upon."""
        if (file := self.address.file) is not None:
            with file.with_name(file.name + ".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
            return
        connection = self._connected()
        connection.execute(text(f"SELECT pg_advisory_lock({LOCK})"))
        try:
            yield
        finally:
            connection.execute(text(f"SELECT pg_advisory_unlock({LOCK})"))

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.invalidated:
            engine = create_engine(self.address.parsed, poolclass=NullPool, isolation_level="AUTOCOMMIT")
            self._connection = engine.connect()
        return self._connection

    def retry_stale(self, studies: Iterable[optuna.Study]) -> None:
        """Trials whose worker has been silent for too long fail and wait again; looks a few times within that span.
        Call it with the lock held."""
        if time.monotonic() - self._looked <= self.address.grace / 4:
            return
        self._looked = time.monotonic()
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
        """Tells the others that this worker is alive."""
        ended, trial_id = threading.Event(), self._trial_id(trial.study, trial.number)

        def beat() -> None:
            while not ended.wait(self._beat_seconds):
                self.optuna.record_heartbeat(trial_id)

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

"""The database that a sweep's workers share: SQLite in one file, or PostgreSQL for many machines."""

from __future__ import annotations

import fcntl
import math
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning
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
class Place:
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

    def __init__(self, place: Place) -> None:
        self.place = place
        if (file := place.file) is not None:
            make_folder(file.parent)
        self._connection: Connection | None = None
        self._looked = -math.inf
        try:
            with self.exclusive():  # two workers that both create the tables would be one too many
                self.optuna = self._open()
        except (SQLAlchemyError, optuna.exceptions.StorageInternalError, RuntimeError, OSError) as error:
            reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0].rstrip(".")
            raise UserError(f"Cannot use the database {place.parsed!r}: {reason}.") from None

    def _open(self) -> Any:
        place = self.place
        of_file = {"connect_args": {"timeout": BUSY_SECONDS}} if place.file is not None else {"pool_pre_ping": True}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            return optuna.storages.get_storage(
                optuna.storages.RDBStorage(
                    place.parsed.render_as_string(hide_password=False),
                    engine_kwargs=of_file,
                    heartbeat_interval=max(1, place.grace // 4),
                    grace_period=place.grace,
                    heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=RETRIES),
                )
            )

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """One worker at a time: what is read in here is still true when it is acted upon."""
        if (file := self.place.file) is not None:
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
            engine = create_engine(self.place.parsed, poolclass=NullPool, isolation_level="AUTOCOMMIT")
            self._connection = engine.connect()
        return self._connection

    def retry_stale(self, studies: Iterable[optuna.Study]) -> None:
        """Trials whose worker has been silent for too long fail and wait again; looks a few times within that span.
        Call it with the lock held."""
        if time.monotonic() - self._looked <= self.place.grace / 4:
            return
        self._looked = time.monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            for study in studies:
                optuna.storages.fail_stale_trials(study)

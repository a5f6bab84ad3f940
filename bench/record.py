"""A run is a folder: config.yaml, metrics.csv (a row per reporting round), result.json, checkpoints/. No torch here.

The writer holds a lock on config.yaml, which the system drops even when the process is killed: so a folder without
result.json tells whether its run is still going.
"""

from __future__ import annotations

import fcntl
import json
import math
import secrets
import shlex
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import yaml  # type: ignore[import-untyped]

from bench.errors import UserError
from bench.files import replaced
from bench.metrics import MB
from bench.output import metrics_csv, versions
from bench.output.facts import git_revision
from bench.output.metrics_csv import Row
from bench.output.result import RunResult, plain

if TYPE_CHECKING:  # pandas takes a second
    from pandas import DataFrame

COLUMNS = (
    *("round", "virtual_seconds", "wall_seconds", "train_loss", "test_loss", "test_accuracy"),
    *("bytes_up", "bytes_down", "bytes_peer", "staleness_mean", "staleness_max"),
)
TIMES = ("wall_seconds", "train_seconds", "aggregate_seconds")  # differ when a run is repeated
EXTRA = {"group", "command", "created", "git_revision", "engine_why"}  # in config.yaml beside the keys of a run


@dataclass(frozen=True)
class Run:
    """What a folder says; numbers that were not taken (no evaluation in that round) are NaN."""

    folder: Path
    config: dict[str, Any]
    rows: list[Row]
    result: RunResult | None
    status: str  # finished | running | interrupted

    @property
    def id(self) -> str:
        return self.folder.name

    def number(self, key: str) -> float | None:
        """Of the result; None: there is none."""
        return None if self.result is None else self.result.number(key)

    def column(self, name: str) -> list[float]:
        """A number per reporting round; megabytes are all bytes so far."""
        if name != "megabytes":
            return [row[name] for row in self.rows]
        return [(row["bytes_up"] + row["bytes_down"] + row["bytes_peer"]) / MB for row in self.rows]


class Record:
    """Writes one run folder; `rows` is what metrics.csv holds."""

    def __init__(self, folder: Path, lock: TextIO) -> None:
        self.folder = folder
        self.rows: list[Row] = []
        self._lock = lock
        self._columns: list[str] = []
        self._csv: TextIO | None = None

    @classmethod
    def create(cls, config: Mapping[str, Any]) -> Record:
        """A new folder below config["out"], with config.yaml in it."""
        now = datetime.now().astimezone()
        folder = _new_folder(Path(config["out"]), now, config)
        extra = {
            "group": None,
            "command": shlex.join(["python", *sys.argv]),
            "created": now.isoformat(timespec="microseconds"),
            "git_revision": git_revision(),  # result.json has that of its end: a resumed run may have met other code
        }
        content = {"format": versions.FORMAT, **extra, **config}
        text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
        try:
            write_atomically(folder / "config.yaml", text)
        except UserError:
            folder.rmdir()
            raise
        return cls(folder, _lock(folder))

    @classmethod
    def reopen(cls, folder: Path) -> Record:
        """An unfinished run, to go on with; call `truncate` next."""
        run = read(folder)
        if run.result is not None:
            raise UserError(f"{folder} is finished already; its result is in {folder / 'result.json'}.")
        record = cls(folder, _lock(folder))
        record.rows = run.rows
        return record

    def append(self, values: Mapping[str, float | None]) -> None:
        """The first row fixes the columns; None (not evaluated) leaves its cell empty."""
        first = self._csv is None
        if first:
            self._columns = [*COLUMNS, *(name for name in values if name not in COLUMNS)]
        if unknown := values.keys() - set(self._columns):
            raise ValueError(f"metrics.csv has no column {', '.join(sorted(unknown))}: the first row fixed them")
        row = {name: metrics_csv.number(values.get(name)) for name in self._columns}
        path = self.folder / "metrics.csv"
        try:
            self._csv = self._csv or path.open("w", newline="", encoding="utf-8")
            self._csv.write(metrics_csv.csv_text([self._columns, row.values()] if first else [row.values()]))
            self._csv.flush()
        except OSError as error:
            with suppress(OSError):  # closing tries to write once more
                self.close_csv()
            self._csv = None
            raise cannot_write(path, error, self.how_to_go_on()) from None
        self.rows.append({name: math.nan if value is None else value for name, value in row.items()})

    def truncate(self, rounds: int) -> None:
        """Keep the first `rounds` rows: those a checkpoint knows of."""
        if rounds > len(self.rows):
            raise UserError(f"{self.folder / 'metrics.csv'} has {len(self.rows)} rounds, its checkpoint {rounds}.")
        self.close_csv()
        del self.rows[rounds:]
        path = self.folder / "metrics.csv"
        if not rounds:
            path.unlink(missing_ok=True)
            return
        with path.open(newline="", encoding="utf-8") as file:
            lines = file.readlines()[: rounds + 1]
        write_atomically(path, "".join(lines))
        self._columns = lines[0].rstrip("\n").split(",")
        self._csv = path.open("a", newline="", encoding="utf-8")

    def finish(self, result: RunResult) -> None:
        write_atomically(self.folder / "result.json", json.dumps(result.to_dict(), indent=2, allow_nan=False) + "\n")

    def keep_forecast(self, values: Mapping[str, float]) -> None:
        """What the run was expected to take when it began."""
        write_atomically(self.folder / "forecast.json", json.dumps(plain(values), indent=2) + "\n")

    def forecast(self) -> dict[str, float] | None:
        """What was kept; None in a new folder, or where it cannot be read."""
        try:
            values = json.loads((self.folder / "forecast.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return values if isinstance(values, dict) and "seconds" in values else None

    def discard(self) -> None:
        """The folder of a run that was refused before its first round."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def how_to_go_on(self) -> str:
        return f"; {len(self.rows)} rounds are kept, python bench.py resume={self.folder} goes on once there is room"

    def close_csv(self) -> None:
        if self._csv is not None:
            self._csv.close()
            self._csv = None

    def close(self) -> None:
        """From now on the run counts as interrupted, or finished."""
        self.close_csv()
        self._lock.close()


def read(folder: Path) -> Run:
    """One run, also while it is running or after it was killed."""
    try:
        config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        config = None
    if not isinstance(config, dict) or "algo" not in config:
        why = (
            "it has no readable config.yaml" if folder.exists() else f"there is none; ls {folder.parent} shows what is"
        )
        raise UserError(f"{folder} is not the folder of a run: {why}.")
    config = versions.upgraded(config, versions.CONFIG, folder / "config.yaml")
    result = _result(folder / "result.json")
    status = "finished" if result is not None else "running" if _is_locked(folder) else "interrupted"
    return Run(folder, config, metrics_csv.read(folder / "metrics.csv"), result, status)


def _result(path: Path) -> RunResult | None:
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise UserError(f"{path} is not readable JSON.") from None
    try:
        return RunResult.from_dict(content, path)
    except TypeError:
        raise UserError(f"{path} does not hold a result.") from None


def read_all(out: Path, group: str | None = None) -> list[Run]:
    """Every run below `out`, the oldest first, or of the multirun `group`, of which what is unreadable is no part."""
    runs = []
    for path in Path(out).glob("*/config.yaml"):
        try:
            runs.append(read(path.parent))
        except UserError:
            if group is None:
                raise
    chosen = [run for run in runs if group is None or run.config.get("group") == group]
    return sorted(chosen, key=lambda run: (str(run.config.get("created")), run.id))


def load(out: str | Path = "runs", **wanted: Any) -> tuple[DataFrame, DataFrame]:
    """The runs below `out` and their reporting rounds, for analysis: a row each, joined by `id`.

    `wanted` keeps the runs with this value, or one of these, in a column: algo="fedavg", seed=[0, 1]; a key with a dot
    is given as **{"algo.mu": 0.1}.
    """
    from bench.output.frames import chosen, rounds_frame, runs_frame

    folder = Path(out)
    runs = read_all(folder)
    if not runs:
        raise UserError(f"There are no runs in {folder}; make some with python bench.py.")
    table = chosen(runs_frame(runs), wanted, folder)
    return table, rounds_frame([run for run in runs if run.id in set(table["id"])])


def write_atomically(path: Path, text: str) -> None:
    try:
        with replaced(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise cannot_write(path, error) from None


def cannot_write(path: Path, error: OSError, more: str = "") -> UserError:
    """A full disk, a quota, a folder that has become read-only."""
    return UserError(f"Cannot write {path}: {error.strerror or error}{more}.")


def _new_folder(out: Path, now: datetime, config: Mapping[str, Any]) -> Path:
    name = f"{now:%Y%m%d-%H%M%S}-{config['algo']['name']}-{config['dataset']['name']}-s{config['seed']}"
    make_folder(out)
    while True:
        folder = out / f"{name}-{secrets.token_hex(2)}"
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            continue
        except OSError as error:
            raise UserError(f"Cannot write to the output folder {out} (key out): {error.strerror}.") from None


def make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot write to the output folder {out} (key out): {error.strerror}.") from None


def _lock(folder: Path) -> TextIO:
    try:
        file = (folder / "config.yaml").open("r+", encoding="utf-8")
    except OSError as error:
        raise cannot_write(folder / "config.yaml", error) from None
    for _ in range(10):  # a reader that looks at the status holds the lock for an instant
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except OSError:
            time.sleep(0.02)
    file.close()
    raise UserError(f"{folder} is being written by another process: the run has not ended.")


def _is_locked(folder: Path) -> bool:
    with (folder / "config.yaml").open(encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False

"""A run is a folder: config.yaml, metrics.csv (a row per reporting round), result.json, checkpoints/. No torch here.

The writer holds a lock on config.yaml, which the system drops even when the process is killed: so a folder without
result.json tells whether its run is still going.
"""

from __future__ import annotations

import hashlib
import json
import math
import shlex
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import yaml  # type: ignore[import-untyped]

from bench import trust
from bench.errors import UserError, cannot_write, program
from bench.files import new_folder, replaced
from bench.metrics import MB, Metric
from bench.output import digests, metrics_csv, versions
from bench.output.facts import git_revision
from bench.output.keys import is_of_run
from bench.output.locks import is_locked, lock
from bench.output.metrics_csv import Row
from bench.output.result import RunResult, plain

if TYPE_CHECKING:  # pandas takes a second
    from pandas import DataFrame

BEFORE = ("round", "virtual_seconds", "wall_seconds", "train_loss", "test_loss")  # the task's metric
AFTER = ("bytes_up", "bytes_down", "bytes_peer", "staleness_mean", "staleness_max")
COLUMNS = (*BEFORE, *AFTER)
TIMES = ("wall_seconds", "train_seconds", "aggregate_seconds")  # differ when a run is repeated
EXTRA = {"group", "command", "created", "git_revision", "engine_why", "fingerprints"}  # in config.yaml beside keys
FILES = ("config.yaml", "forecast.json", "metrics.csv", "prerun.json", "result.json", "timeline.csv")  # of a run


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

    @property
    def metric(self) -> Metric:
        """Of a finished run."""
        assert self.result is not None
        return self.result.metric

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

    def __init__(self, folder: Path, lock: TextIO, words: str) -> None:
        self.folder = folder
        self.resume = f"{program()} resume={folder}{words}"  # the command that goes on with it
        self.rows: list[Row] = []
        self.checkpointed = 0  # rounds that a checkpoint holds
        self.written = hashlib.sha256()  # of metrics.csv
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
            write_atomically(folder / "config.yaml", digests.signed(text))
        except UserError:
            folder.rmdir()
            raise
        return cls(folder, lock(folder / "config.yaml"), trust.words(config))

    @classmethod
    def reopen(cls, folder: Path) -> Record:
        """An unfinished run, to go on with; call `truncate` next."""
        run = read(folder)
        if run.result is not None:
            raise UserError(f"{folder} is finished already; its result is in {folder / 'result.json'}.")
        record = cls(folder, lock(folder / "config.yaml"), trust.words(run.config))
        record.rows = run.rows
        return record

    def append(self, values: Mapping[str, float | None]) -> None:
        """The first row fixes the columns; None (not evaluated) leaves its cell empty."""
        first = self._csv is None
        if first:
            more = [name for name in values if name not in COLUMNS]
            tested = [name for name in more if name.startswith("test_")]
            self._columns = [*BEFORE, *tested, *AFTER, *(name for name in more if name not in tested)]
        if unknown := values.keys() - set(self._columns):
            raise ValueError(f"metrics.csv has no column {', '.join(sorted(unknown))}: the first row fixed them")
        row = {name: metrics_csv.number(values.get(name)) for name in self._columns}
        path = self.folder / "metrics.csv"
        try:
            self._csv = self._csv or path.open("w", newline="", encoding="utf-8")
            text = metrics_csv.csv_text([self._columns, row.values()] if first else [row.values()])
            self._csv.write(text)
            self._csv.flush()
            self.written.update(text.encode())
        except OSError as error:
            with suppress(OSError):  # closing tries to write once more
                self.close_csv()
            self._csv = None
            raise cannot_write(path, error, self.how_to_go_on()) from None
        self.rows.append({name: math.nan if value is None else value for name, value in row.items()})

    def kept(self, rounds: int) -> str:
        """What metrics.csv says of the first `rounds` rounds: those a checkpoint knows of."""
        path = self.folder / "metrics.csv"
        if rounds > len(self.rows):
            raise UserError(f"{path} has {len(self.rows)} rounds, its checkpoint {rounds}.")
        if not rounds:
            return ""
        with path.open(newline="", encoding="utf-8") as file:
            return "".join(file.readlines()[: rounds + 1])

    def truncate(self, rounds: int) -> None:
        """Go on after the first `rounds` rounds."""
        text, path = self.kept(rounds), self.folder / "metrics.csv"
        self.close_csv()
        self.checkpointed = rounds
        self.written = hashlib.sha256(text.encode())
        del self.rows[rounds:]
        if not rounds:
            path.unlink(missing_ok=True)
            return
        write_atomically(path, text)
        self._columns = text.partition("\n")[0].split(",")
        self._csv = path.open("a", newline="", encoding="utf-8")

    def finish(self, result: RunResult) -> None:
        """With SHA256SUMS first: what has a result is sealed."""
        self.close_csv()
        text = json.dumps(result.to_dict(), indent=2, allow_nan=False) + "\n"
        sums = digests.sums(self.folder, FILES) | {"result.json": digests.of(text)}
        write_atomically(self.folder / digests.LIST, digests.listing(sums))
        write_atomically(self.folder / "result.json", text)

    def keep_forecast(self, values: Mapping[str, float]) -> None:
        """What the run was expected to take when it began."""
        write_atomically(self.folder / "forecast.json", digests.json_text(plain(values)))

    def forecast(self) -> dict[str, float] | None:
        """What was kept; None in a new folder, or where it is not as it was written."""
        try:
            return digests.from_json((self.folder / "forecast.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None

    def discard(self) -> None:
        """The folder of a run that was refused before its first round."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def how_to_go_on(self) -> str:
        """After a sentence on why the run ended."""
        if not self.checkpointed:
            return f"; there is no checkpoint yet, {self.resume} starts over once there is room"
        return f"; {self.checkpointed} rounds are kept, {self.resume} goes on once there is room"

    def close_csv(self) -> None:
        if self._csv is not None:
            self._csv.close()
            self._csv = None

    def close(self) -> None:
        """From now on the run counts as interrupted, or finished."""
        self.close_csv()
        self._lock.close()


def read(folder: Path) -> Run:
    """One run, also while it is running or after it was killed; a finished one only as it was written."""
    config = _config(folder)
    result = _result(folder)
    status = "finished" if result is not None else "running" if is_locked(folder / "config.yaml") else "interrupted"
    return Run(folder, config, metrics_csv.read(folder / "metrics.csv"), result, status)


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.yaml"
    try:
        text = path.read_bytes().decode()
        config = yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        config = None
    if not isinstance(config, dict) or not isinstance(config.get("algo"), dict | str):
        why = "it has no readable config.yaml"
        if not folder.exists():
            why = f"there is none; ls {folder.parent} shows what is"
        raise UserError(f"{folder} is not the folder of a run: {why}.")
    number = versions.readable(config.get("format", 1), path)
    digests.check_signed(path, text, number)
    config.pop("sha256", None)
    return versions.upgraded(config, versions.CONFIG, path)


def _result(folder: Path) -> RunResult | None:
    path = folder / "result.json"
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise UserError(f"{path} is not readable JSON.") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} does not hold a result.")
    number = versions.readable(content.get("format", 1), path)
    if number >= digests.SINCE or (folder / digests.LIST).exists():
        digests.check(folder, FILES)
    try:
        return RunResult.from_dict(content, path)
    except TypeError:
        raise UserError(f"{path} does not hold a result.") from None


def read_all(out: Path, group: str | None = None) -> list[Run]:
    """Every run below `out`, the oldest first, or of the multirun `group`; what is unreadable is no part and named."""
    runs, skipped = [], []
    for path in sorted(Path(out).glob("*/config.yaml")):
        try:
            run = read(path.parent)
            if not is_of_run(run.config):
                raise UserError(f"{run.folder} is not the folder of a run: its config.yaml is of another program.")
            runs.append(run)
        except UserError as error:
            skipped.append(error)
    if skipped:
        rest = f", and {len(skipped) - 1} more" * (len(skipped) > 1)
        print(f"skipped    {str(skipped[0]).rstrip('.')}{rest}.", file=sys.stderr, flush=True)
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
        raise UserError(f"There are no runs in {folder}; make some with {program()}.")
    table = chosen(runs_frame(runs), wanted, folder)
    return table, rounds_frame([run for run in runs if run.id in set(table["id"])])


def write_atomically(path: Path, text: str) -> None:
    try:
        with replaced(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise cannot_write(path, error) from None


def _new_folder(out: Path, now: datetime, config: Mapping[str, Any]) -> Path:
    make_folder(out)
    name = f"{now:%Y%m%d-%H%M%S}-{config['algo']['name']}-{config['dataset']['name']}-s{config['seed']}"
    try:
        return new_folder(out, name)
    except OSError as error:
        raise _no_output(out, error) from None


def make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_output(out, error) from None


def _no_output(out: Path, error: OSError) -> UserError:
    return UserError(f"Cannot write to the output folder {out} (key out): {error.strerror}.")

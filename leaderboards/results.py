"""Results that last: leaderboards/results/<hash of the resolved config>.json, small, one per run and seed.

Everything here is checked when it is read: what is in that folder is what verdicts rest on.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from bench.errors import UserError
from bench.metrics import MB, Metric
from bench.output import digests, versions
from bench.output.result import RunResult
from bench.record import EXTRA, Run, write_atomically

FOLDER = Path(__file__).resolve().parent / "results"
IDLE = 0.05  # of the machine's processor time, taken by other processes at the most
DIGITS = 16  # of the hash: enough for every run there will ever be
COLUMNS = ("virtual_seconds", "bytes_up", "bytes_down", "bytes_peer")
# keys that do not shape training: where, who, how it is computed; engines agree with each other by test
NO_MATTER = ("out", "logger", "engine", "checkpoint_seconds", "keep_model", *sorted(EXTRA))


@dataclass(frozen=True)
class Planned:
    """The run of a sweep's plan that a result is a run of."""

    sweep: str
    method: str
    dataset: str
    setting: str
    overrides: tuple[str, ...]
    scale: str  # paper | cpu | other
    differs: dict[str, tuple[Any, Any]] = field(default_factory=dict)  # key -> (the plan's at scale=paper, the run's)

    @property
    def key(self) -> tuple[str, str, str, str, tuple[str, ...]]:
        """As that of the SweepRun that it is."""
        return self.sweep, self.method, self.dataset, self.setting, self.overrides


@dataclass(frozen=True)
class CommittedRun:
    """A run that verdicts rest on."""

    name: str  # the hash
    config: dict[str, Any]  # without the keys of NO_MATTER
    engine: dict[str, Any]
    group: str | None
    command: str
    created: str
    plan: tuple[Planned, ...]
    rows: dict[str, list[float | None]]  # column -> value per reporting round; None: not evaluated
    result: RunResult

    @property
    def seed(self) -> int:
        return int(self.config["seed"])

    @property
    def batch(self) -> tuple[Any, ...]:
        """Seconds are compared within it only."""
        machine = self.result.machine
        return self.group, machine.get("cpu"), machine.get("cores"), self.result.engine

    @property
    def is_idle(self) -> bool:
        """Were its seconds taken while nothing else ran?"""
        return float(self.result.machine.get("others", 1)) <= IDLE

    @property
    def ends_at(self) -> float:
        """The accuracy of its last round; that of chance where it diverged."""
        last = None if self.result.has_diverged else self.result.final
        return 1 / int(self.result.data["classes"]) if last is None else last

    @property
    def label(self) -> str:
        """For people: method and data set as configured."""
        return f"{self.config['algo']['name']} on {self.config['dataset']['name']}, seed {self.seed}"

    @property
    def metric(self) -> Metric:
        return self.result.metric

    def number(self, key: str) -> float | None:
        return self.result.number(key)

    def column(self, name: str) -> list[float]:
        """A number per reporting round, NaN: not evaluated; megabytes are all bytes so far."""
        if name == "round":
            return [float(t) for t in range(1, self.result.rounds + 1)]
        if name == "megabytes":
            ways = (self.column(way) for way in ("bytes_up", "bytes_down", "bytes_peer"))
            return [sum(values) / MB for values in zip(*ways, strict=True)]
        return [math.nan if value is None else value for value in self.rows[name]]


def shaping(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a config that shape training, and the seed."""
    return {key: value for key, value in config.items() if key not in NO_MATTER}


def name_of(config: Mapping[str, Any]) -> str:
    """The same for ever: a key that came later counts only where it is not at its default."""
    text = json.dumps(versions.first_form(shaping(config)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def from_run(run: Run, plan: Iterable[Planned]) -> CommittedRun:
    """A checked run (leaderboards.add) as what is kept of it."""
    assert run.result is not None
    rows = {name: [_short(row[name]) for row in run.rows] for name in (run.metric.column, *COLUMNS)}
    config = run.config
    return CommittedRun(
        name=name_of(config),
        config=shaping(config),
        engine=dict(config["engine"]),
        group=config.get("group"),
        command=str(config.get("command")),
        created=str(config.get("created")),
        plan=tuple(plan),
        rows=rows,
        result=run.result,
    )


def write(run: CommittedRun, folder: Path) -> None:
    """One key a line at the top, a column a line in rows, so that a diff shows what moved."""
    top = {"format": versions.FORMAT, **asdict(run), "result": run.result.to_dict()}
    rows = top.pop("rows")
    lines = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in top.items()]
    short = {key: json.dumps(values, separators=(",", ":")) for key, values in rows.items()}
    columns = ",\n".join(f"    {json.dumps(key)}: {values}" for key, values in short.items())
    lines.append(f'  "rows": {{\n{columns}\n  }}')
    folder.mkdir(parents=True, exist_ok=True)
    file, text = f"{run.name}.json", "{\n" + ",\n".join(lines) + "\n}\n"
    sums = digests.read_list(folder) | {file: digests.of(text)}  # of the others as they were added, not as they are
    write_atomically(folder / file, text)
    write_atomically(folder / digests.LIST, digests.listing(sums))


def remove(run: CommittedRun, folder: Path) -> None:
    file = f"{run.name}.json"
    (folder / file).unlink()
    rest = {name: digest for name, digest in digests.read_list(folder).items() if name != file}
    write_atomically(folder / digests.LIST, digests.listing(rest))


def read(path: Path) -> CommittedRun:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UserError(f"{path} is not readable JSON; python -m leaderboards add writes it.") from None
    try:
        keys = {"format": data.pop("format", 1), "engine": data.pop("engine"), **data.pop("config")}
        config = versions.upgraded(keys, versions.CONFIG, path)
        engine, result = config.pop("engine"), RunResult.from_dict(data.pop("result"), path)
        plan = tuple(_planned(item) for item in data.pop("plan"))
        run = CommittedRun(**data, config=config, engine=engine, result=result, plan=plan)
        right = name_of(config)
        lengths = {len(run.rows[name]) for name in (run.metric.column, *COLUMNS)}
        wrong = [(name, recorded, value) for name, recorded, value in _of_rows(run) if _digits(recorded) != value]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path} does not hold a result ({error}); python -m leaderboards add writes it.") from None
    if path.stem != right or run.name != right:
        raise UserError(f"{path} should be named {right}.json, after its config: it was edited or renamed.")
    if lengths != {result.rounds}:
        raise UserError(f"{path} has columns of {sorted(lengths)} rounds, its result {result.rounds}.")
    for name, recorded, value in wrong:
        raise UserError(f"{path} says {name} {recorded}, its rows {value}: it was edited.")
    return run


def _of_rows(run: CommittedRun) -> Iterator[tuple[str, float | None, float | None]]:
    """What a result says, and what its rows say of the same."""
    last = {name: values[-1] if values else None for name, values in run.rows.items()}
    metric, values = run.metric, run.column(run.metric.column)
    told = {
        "final": None if run.result.diverged else last[metric.column],
        "best": metric.best(values),
        "rounds_to_target": metric.rounds_to(run.result.target, values),
        "virtual_seconds": last["virtual_seconds"],
        "upload_bytes": last["bytes_up"],
        "download_bytes": last["bytes_down"],
        "peer_bytes": last["bytes_peer"],
    }
    return ((run.result.key(name), getattr(run.result, name), value) for name, value in told.items())


def load(folder: Path = FOLDER) -> tuple[CommittedRun, ...]:
    """Every result in the folder, by name: those that its SHA256SUMS lists, as they were when they were added."""
    found = tuple(read(path) for path in sorted(folder.glob("*.json")))
    check(folder)
    return found


def check(folder: Path = FOLDER) -> None:
    """Refuses a folder in which a result was edited, removed or slipped in."""
    names = (path.name for path in folder.iterdir() if path.name != digests.LIST) if folder.exists() else ()
    try:
        digests.check(folder, names)
    except UserError as error:
        raise UserError(f"{str(error).rstrip('.')}; git checkout {folder} restores what was committed.") from None


@cache
def committed() -> tuple[CommittedRun, ...]:
    return load()


def _planned(item: Mapping[str, Any]) -> Planned:
    differs = {key: (a, b) for key, (a, b) in item["differs"].items()}
    return Planned(**{**item, "overrides": tuple(item["overrides"]), "differs": differs})


def _short(value: float) -> float | None:
    """Seven digits are more than a curve shows; counts stay whole."""
    if isinstance(value, int):
        return value
    return None if math.isnan(value) else float(f"{value:.7g}")


def _digits(value: float | None) -> float | None:
    return None if value is None else _short(value)

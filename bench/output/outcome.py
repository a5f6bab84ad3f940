"""What a result says that follows from the config and the rows of its run: written once, and compared ever after."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.metrics import Metric
from bench.output.metrics_csv import Row
from bench.output.result import RunResult, plain
from bench.record import COLUMNS, TIMES, Run

_COMMON = {*COLUMNS, *TIMES, "version", "gradient_evaluations", "dropped"}
Gap = tuple[str, Any, Any]  # what, as recorded, as it follows


def outcome(config: Mapping[str, Any], rows: Sequence[Row], metric: Metric) -> dict[str, Any]:
    """Fields of RunResult."""
    last: Mapping[str, Any] = rows[-1] if rows else defaultdict(lambda: math.nan)  # diverged in its first round
    values = [row[metric.column] for row in rows]
    reached = metric.rounds_to(config["target"], values)
    return {
        **{key: config[key]["name"] for key in ("algo", "dataset", "partition")},
        **{key: config.get(key) for key in ("group", "protocol", "scale", "seed", "target")},
        "rounds": len(rows),
        "aggregations": last["version"],
        "metric": metric,
        "final": last[metric.column],
        "best": metric.best(values),
        "final_loss": last["test_loss"],
        "rounds_to_target": reached,
        "seconds_per_round": _training(rows) / max(len(rows), 1),
        "aggregate_seconds_per_round": math.fsum(row["aggregate_seconds"] for row in rows) / max(len(rows), 1),
        "seconds_to_target": None if reached is None else _training(rows[:reached]),
        "wall_seconds": last["wall_seconds"],
        "virtual_seconds": last["virtual_seconds"],
        "upload_bytes": last["bytes_up"],
        "download_bytes": last["bytes_down"],
        "peer_bytes": last["bytes_peer"],
        "gradient_evaluations": last["gradient_evaluations"],
        "report": {name: value for name, value in last.items() if name not in {*_COMMON, metric.column}},
    }


def _training(rows: Sequence[Row]) -> float:
    """Seconds of local training and aggregation; evaluation is not in them."""
    return math.fsum(row["train_seconds"] for row in rows)


def gaps(run: Run) -> list[Gap]:
    """Where a result is not what its own config and rows say."""
    assert run.result is not None
    try:
        expected = outcome(run.config, run.rows, run.result.metric)
    except KeyError as error:
        return [(f"column {error}", None, "one of a run")]
    if run.result.diverged is not None:
        expected["final"] = None
    rounds = [(f"the {t}. row's round", row["round"], t) for t, row in enumerate(run.rows, 1) if row["round"] != t]
    return [*rounds[:1], *different(run.result, expected)]


def different(result: RunResult, expected: Mapping[str, Any]) -> Iterator[Gap]:
    for name, value in expected.items():
        recorded = plain(getattr(result, name))
        if recorded != plain(value):
            yield result.key(name), recorded, plain(value)


def rows_differ(then: Sequence[Row], now: Sequence[Row]) -> str | None:
    """Where rows first differ in what does not depend on the clock on the wall; None: nowhere."""
    for old, new in zip(then, now, strict=False):
        for name in sorted({*old, *new} - {*TIMES}):
            if name not in old or name not in new or not _same(old[name], new[name]):
                return f"from round {new['round']} on: {name} was {old.get(name)}, is {new.get(name)}"
    return None if len(then) == len(now) else f"{len(then)} rounds are recorded, there are {len(now)}"


def _same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))

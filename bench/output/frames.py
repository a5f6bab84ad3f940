"""Records as pandas tables: a row per run, a row per reporting round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bench.errors import UserError, unknown
from bench.record import Run

FIRST = ("id", "folder", "status", "group", "algo", "dataset", "protocol", "scale", "seed")
REPEATED = {"id", "group", "algo", "dataset", "partition", "protocol", "scale", "seed", "target", "model", "engine"}


def runs_frame(runs: Sequence[Run]) -> pd.DataFrame:
    """The keys of the command line, then the result; what both have (rounds) is the result's as `result.rounds`."""
    table = pd.DataFrame([_row(run) for run in runs])
    first = [name for name in FIRST if name in table.columns]
    return table[[*first, *(name for name in table.columns if name not in first)]]


def rounds_frame(runs: Sequence[Run]) -> pd.DataFrame:
    """The rows of metrics.csv, each with what tells its run from others."""
    rows = []
    for run in runs:
        names = {key: run.config[key]["name"] for key in ("algo", "dataset")}
        rows += [{"id": run.id, **names, "seed": run.config["seed"], **row} for row in run.rows]
    return pd.DataFrame(rows)


def chosen(table: pd.DataFrame, wanted: Mapping[str, Any], out: Path) -> pd.DataFrame:
    """The rows that have one of the wanted values in each of the columns."""
    for name, value in wanted.items():
        if name not in table.columns:
            raise unknown("column", name, table.columns, listing="see load(...)[0].columns")
        values = value if isinstance(value, list) else [value]
        kept = table[table[name].isin(values)]
        if kept.empty:
            there = ", ".join(sorted({str(other) for other in table[name]}))
            raise UserError(f"No run in {out} has {name}={value}; there are {there}.")
        table = kept
    return table.reset_index(drop=True)


def _row(run: Run) -> dict[str, Any]:
    row = {"id": run.id, "folder": str(run.folder), "status": run.status, **dict(_flat(run.config))}
    for name, value in _flat(run.result or {}):
        if name not in REPEATED:
            row[f"result.{name}" if name in row else name] = value
    return row


def _flat(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """algo: {name: fedprox, mu: 0.1} is algo = fedprox and algo.mu = 0.1, as on the command line."""
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif key == "name" and prefix:
            yield prefix[:-1], value
        elif key != "_target_":
            yield f"{prefix}{key}", tuple(value) if isinstance(value, list) else value  # can be grouped by

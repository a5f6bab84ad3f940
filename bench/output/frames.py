"""Records as pandas tables: a row per run, a row per reporting round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bench.errors import UserError, unknown
from bench.output.keys import dotted
from bench.record import Run

FIRST = ("id", "folder", "status", "group", "algo", "dataset", "protocol", "scale", "seed")
REPEATED = {
    *(
        "id",
        "group",
        "algo",
        "dataset",
        "partition",
        "protocol",
        "scale",
        "seed",
        "target",
        "model",
        "engine",
        "format",
    ),
    *(f"metric.{name}" for name in ("label", "unit", "factor", "digits", "higher")),
}


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
    row = {"id": run.id, "folder": str(run.folder), "status": run.status, **_cells(run.config)}
    for name, value in _cells(run.result.to_dict() if run.result else {}).items():
        if name not in REPEATED:
            row[f"result.{name}" if name in row else name] = value
    return row


def _cells(node: Mapping[str, Any]) -> dict[str, Any]:
    """Lists as tuples, which can be grouped by."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in dotted(node)}

"""Learning curves as a picture: mean over seeds, with a band from the lowest to the highest seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bench.metrics import MB
from bench.output.metrics_csv import Row
from bench.record import Run
from leaderboards.tables import Entry, Group, group

WIDTH, HEIGHT = 6.4, 4.2  # inches a panel
LEGEND, LINES = 2.0, 24  # inches, and how many names fit beside a panel
# Okabe and Ito's colours, told apart by colour-blind readers
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":")  # so that equal curves do not hide each other
LABELS = {"round": "round", "virtual_seconds": "virtual time (s)", "megabytes": "traffic, all devices (MB)"}
Series = NDArray[np.float64]


def learning_curves(runs: Sequence[Run], path: Path) -> None:
    """Writes them as a PNG."""
    figure = drawn(runs)
    FigureCanvasAgg(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def drawn(runs: Sequence[Run]) -> Figure:
    """One line of panels per data set and protocol: accuracy over rounds, and over what tells the methods apart."""
    groups = group([run for run in runs if run.rows])  # a run may have diverged in its first round
    if not groups:
        raise ValueError("there is no finished run to plot")
    axes = ["round", *_other_axes(groups)]
    columns = [math.ceil(len(g.entries) / LINES) for g in groups]
    figure = Figure((WIDTH * len(axes) + LEGEND * max(columns), HEIGHT * len(groups)), layout="constrained")
    panels = figure.subplots(len(groups), len(axes), squeeze=False, sharey="row")
    for g, line, many in zip(groups, panels, columns, strict=True):
        for axis, panel in zip(axes, line, strict=True):
            _panel(panel, g, axis)
        line[0].set_title(f"{g.dataset}, protocol {g.protocol}", loc="left")
        line[0].set_ylabel("test accuracy (%)")
        line[-1].legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small", frameon=False, ncols=many)
    if any(len(entry.runs) > 1 for g in groups for entry in g.entries):
        figure.text(0.005, 0.002, "lines: mean over seeds; bands: lowest to highest seed", fontsize="x-small")
    return figure


def _other_axes(groups: Sequence[Group]) -> list[str]:
    """Virtual time and traffic, each if methods in one group spend it at different rates."""

    def differ(g: Group, axis: str) -> bool:
        ends = [_mean(entry, axis)[-1] / len(_mean(entry, axis)) for entry in g.entries]
        return bool(max(ends) > 1.05 * min(ends))

    return [axis for axis in ("virtual_seconds", "megabytes") if any(differ(g, axis) for g in groups)]


def _panel(panel: Axes, g: Group, axis: str) -> None:
    for number, entry in enumerate(g.entries):
        colour, style = COLOURS[number % len(COLOURS)], STYLES[number % len(STYLES)]
        x, curves = _mean(entry, axis), 100 * _stack(entry, "test_accuracy")
        seen = ~np.isnan(curves).any(axis=0)
        x, curves = x[seen], curves[:, seen]
        label = entry.name if len(curves) == 1 else f"{entry.name} ({len(curves)} seeds)"
        panel.plot(x, curves.mean(axis=0), style, color=colour, label=label, linewidth=1.6)
        if len(curves) > 1:
            panel.fill_between(x, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.15, linewidth=0)
    for target in sorted({target for entry in g.entries for target in entry.values("target")}):
        panel.axhline(
            100 * target, color="grey", linestyle=(0, (1, 2)), linewidth=1, label=f"target {100 * target:g} %"
        )
    panel.set_xlabel(LABELS[axis])
    panel.set_xlim(left=0)
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)


def _mean(entry: Entry, column: str) -> Series:
    return np.asarray(_stack(entry, column).mean(axis=0), dtype=np.float64)


def _stack(entry: Entry, column: str) -> Series:
    """[seeds, rounds], as far as all seeds got."""
    rounds = min(len(run.rows) for run in entry.runs)
    return np.array([[_number(row, column) for row in run.rows[:rounds]] for run in entry.runs], dtype=np.float64)


def _number(row: Row, column: str) -> float:
    return (row["bytes_up"] + row["bytes_down"] + row["bytes_peer"]) / MB if column == "megabytes" else row[column]

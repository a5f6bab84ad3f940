"""Learning curves: mean over seeds, with a band from the lowest to the highest seed; here as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.output.paces import columns, pace_differs
from bench.output.seeds import Drawn, SeedRuns
from bench.output.tables import Comparison, compared
from bench.record import Run

if TYPE_CHECKING:  # half a second, and the site draws without it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 6.4, 4.2  # inches a panel
LEGEND, LINES = 2.0, 24  # inches, and how many names fit beside a panel
# Okabe and Ito's colours, told apart by colour-blind readers
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":")  # so that equal curves do not hide each other
AXES = {"round": "round", "virtual_seconds": "virtual time (s)", "megabytes": "traffic of all devices (MB)"}


@dataclass(frozen=True)
class Curve:
    """The metric as it is written, in %, say, over an axis, in the rounds that all seeds evaluated."""

    label: str
    seeds: int
    x: list[float]  # mean over seeds
    mean: list[float]
    low: list[float]
    high: list[float]


def curve(runs: SeedRuns[Drawn], axis: str, points: int | None = None) -> Curve | None:
    """None if no round was evaluated by all; of more than so many points every so-manieth, and the last."""
    metric = runs.metric
    measured = columns(runs, metric.column)
    seen = [i for i, values in enumerate(zip(*measured, strict=True)) if not any(map(math.isnan, values))]
    if not seen:
        return None
    step = 1 if points is None else max(1, math.ceil(len(seen) / points))
    kept = sorted({*seen[::step], seen[-1]})
    xs = columns(runs, axis)
    together = [[metric.factor * column[i] for column in measured] for i in kept]
    return Curve(
        runs.label,
        len(runs),
        [math.fsum(x[i] for x in xs) / len(xs) for i in kept],
        [math.fsum(values) / len(values) for values in together],
        [min(values) for values in together],
        [max(values) for values in together],
    )


def learning_curves(runs: Sequence[Run], path: Path) -> None:
    """Writes them as a PNG."""
    figure = drawn(runs)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def drawn(runs: Sequence[Run]) -> Figure:
    """One line of panels per data set and protocol: the metric over rounds, and over what tells the methods apart."""
    from matplotlib.figure import Figure

    found = compared([run for run in runs if run.rows])  # a run may have diverged in its first round
    if not found:
        raise ValueError("there is no finished run to plot")
    costs = [axis for axis in ("virtual_seconds", "megabytes") if any(pace_differs(c.methods, axis) for c in found)]
    axes = ["round", *costs]
    legends = [math.ceil(len(comparison.methods) / LINES) for comparison in found]
    figure = Figure((WIDTH * len(axes) + LEGEND * max(legends), HEIGHT * len(found)), layout="constrained")
    panels = figure.subplots(len(found), len(axes), squeeze=False, sharey="row")
    for comparison, line, many in zip(found, panels, legends, strict=True):
        for axis, panel in zip(axes, line, strict=True):
            _panel(panel, comparison, axis)
        line[0].set_title(f"{comparison.dataset}, protocol {comparison.protocol}", loc="left")
        line[0].set_ylabel(comparison.methods[0].metric.axis)
        line[-1].legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small", frameon=False, ncols=many)
    if any(len(method) > 1 for comparison in found for method in comparison.methods):
        figure.text(0.005, 0.002, "lines: mean over seeds; bands: lowest to highest seed", fontsize="x-small")
    return figure


def _panel(panel: Axes, comparison: Comparison, axis: str) -> None:
    for number, method in enumerate(comparison.methods):
        colour, style = COLOURS[number % len(COLOURS)], STYLES[number % len(STYLES)]
        if (line := curve(method, axis)) is not None:
            label = line.label if line.seeds == 1 else f"{line.label} ({line.seeds} seeds)"
            panel.plot(line.x, line.mean, style, color=colour, label=label, linewidth=1.6)
            if line.seeds > 1:
                panel.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
    for target in sorted({target for method in comparison.methods for target in method.numbers("target").values}):
        metric = comparison.methods[0].metric
        level, label = metric.factor * target, f"target {metric.goal(target)}"
        panel.axhline(level, color="grey", linestyle=(0, (1, 2)), linewidth=1, label=label)
    panel.set_xlabel(AXES[axis])
    panel.set_xlim(left=0)
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)

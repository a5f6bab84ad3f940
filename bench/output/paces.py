"""Runs whose rounds take differently long, compared at one moment: as many virtual seconds, as many bytes sent up."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence

from bench.metrics import GB, MB, Metric
from bench.output.seeds import Drawn, SeedNumbers, SeedRuns

DIFFERENT = 1.05  # costs that differ less tell nothing
AXES = ("virtual_seconds", "bytes_up")
WIDTH = 110  # characters of a line
KB = 2**10
UNBROKEN = "\N{NO-BREAK SPACE}"


def columns(runs: SeedRuns[Drawn], name: str) -> list[Sequence[float]]:
    """Per seed, as far as all seeds got."""
    found = [run.column(name) for run in runs.runs]
    rounds = min(map(len, found))
    return [column[:rounds] for column in found]


def pace_differs(methods: Iterable[SeedRuns[Drawn]], axis: str) -> bool:
    """Does a round cost the methods differently much?"""
    paces = []
    for runs in methods:
        ends = [column[-1] / len(column) for column in columns(runs, axis) if column and column[-1] > 0]
        paces += [math.fsum(ends) / len(ends)] if ends else []
    return bool(paces) and max(paces) > DIFFERENT * min(paces)


def measured_by(run: Drawn, axis: str, moment: float) -> float | None:
    """What was last measured by then; None: nothing was."""
    last = None
    for when, value in zip(run.column(axis), run.column(run.metric.column), strict=True):
        if when > moment:
            break
        last = last if math.isnan(value) else value
    return last


def moments(methods: Iterable[SeedRuns[Drawn]]) -> dict[str, float]:
    """By axis, the last moment that all runs reached; none where a round takes the methods equally long. Runs that
    diverged are not waited for, nor for bytes those that send none."""
    asked = [known for runs in methods if (known := _sound(runs)).by_seed]
    if not pace_differs(asked, "virtual_seconds"):
        return {}
    costly = {axis: [runs for runs in asked if _costs(runs, axis)] for axis in AXES}
    return {
        axis: min(run.column(axis)[-1] for runs in found for run in runs.runs)
        for axis, found in costly.items()
        if found
    }


def _costs(runs: SeedRuns[Drawn], axis: str) -> bool:
    ends = (column[-1] for run in runs.runs if len(column := run.column(axis)))
    return any(end > 0 for end in ends)


def at_moment(runs: SeedRuns[Drawn], axis: str, moment: float) -> SeedNumbers:
    """Of the runs that did not diverge."""
    return _sound(runs).each(lambda run: measured_by(run, axis, moment))


def sentences(methods: Sequence[SeedRuns[Drawn]]) -> list[str]:
    """Who is where at these moments, best first."""
    found = []
    for axis, moment in moments(methods).items():
        numbers = [(runs.label, at_moment(runs, axis, moment)) for runs in methods if _costs(runs, axis)]
        known = [(label, values) for label, values in numbers if values.by_seed]
        metric = methods[0].metric
        known.sort(key=lambda pair: math.inf if pair[1].missed else -metric.merit(pair[1].mean))
        each = (f"{label} {_mean(values, metric)}".replace(" ", UNBROKEN) for label, values in known)
        found.append(_wrapped(f"at {moment_text(axis, moment)}: {', '.join(each)}"))
    return found


def moment_text(axis: str, moment: float) -> str:
    """599 virtual s, 1.2 GB sent up"""
    if axis == "virtual_seconds":
        return f"{_short(moment)} virtual s"
    size, unit = (GB, "GB") if moment >= GB else (MB, "MB") if moment >= 0.1 * MB else (KB, "kB")
    return f"{_short(moment / size)} {unit} sent up"


def _wrapped(text: str) -> str:
    lines = textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace(UNBROKEN, " ")


def _sound(runs: SeedRuns[Drawn]) -> SeedRuns[Drawn]:
    found = {seed: run for seed, run in runs.by_seed.items() if run.number("final") is not None}
    return SeedRuns(runs.label, found)


def _mean(values: SeedNumbers, metric: Metric) -> str:
    return values.text("", "none yet") if values.missed else metric.roughly(values.mean)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"

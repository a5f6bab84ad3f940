"""The measured part of a paper's page: learning curves, cost to target, Pareto plots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from bench.output.paces import at_moment, moment_text, moments
from bench.output.result import OF_METRIC
from bench.output.seeds import SeedNumbers, SeedRuns
from leaderboards.page import charts
from leaderboards.page.boards import Board
from leaderboards.page.frame import scroll, sortable
from leaderboards.page.html import Html, el
from leaderboards.results import CommittedRun


def section(boards: Sequence[Board]) -> Html:
    parts = [el("h2", "What was measured")]
    lead = "Lines are means over seeds, bands reach from the lowest to the highest; legends hide and show lines."
    parts.append(el("p", lead, class_="quiet"))
    for sweep in dict.fromkeys(board.sweep for board in boards):
        mine = [board for board in boards if board.sweep == sweep]
        parts.append(el("h3", sweep))
        parts.append(el("p", mine[0].source, class_="quiet"))
        parts += [_board(board) for board in mine]
    return el("section", *parts, id="measured")


def _board(board: Board) -> Html:
    axes = ["round", *(("virtual_seconds", "megabytes") if moments(board.lines) else ())]
    pictures = [charts.learning(board, axis) for axis in axes]
    pictures += [charts.pareto(board, cost) for cost in ("megabytes", "virtual_seconds")]
    figures = [el("figure", picture) for picture in pictures if picture]
    scale = f"scale {', '.join(board.scales)}"
    return el(
        "article",
        el("h4", board.title, " ", el("small", scale)),
        charts.legend(board),
        el("div", *figures, class_="figures"),
        costs(board),
        class_="board",
    )


def costs(board: Board) -> Html:
    """Rounds, virtual seconds and bytes to the target; the metric at one moment where rounds take differently long."""
    metric, common = board.metric, moments(board.lines)
    goal, short = f"to {metric.goal(board.target)}", metric.unit or metric.label
    names = ("Method", "Seeds", f"Final {short}", f"Best {short}", f"Rounds {goal}", f"Virtual s {goal}", f"MB {goal}")
    head = el("tr", *map(sortable, (*names, *(f"{short} at {moment_text(*one)}" for one in common.items()))))
    rows = [_row(line, common) for line in board.lines]
    table = el("table", el("thead", head), el("tbody", *rows), class_="plain sortable")
    return scroll(table, f"Costs {goal}: {board.title}")


def row(line: SeedRuns[CommittedRun]) -> list[tuple[str, float]]:
    """Text and number of each column after the name."""
    metric = line.metric
    numbers = [
        *((line.numbers(which).times(metric.factor), metric.digits, "diverged") for which in OF_METRIC),
        (line.each(_reached), 1, "never"),
        (_at_target(line, "virtual_seconds"), 1, "never"),
        (_at_target(line, "megabytes"), 0, "never"),
    ]
    return [(str(len(line)), len(line)), *((n.text(f",.{digits}f", missing), n.mean) for n, digits, missing in numbers)]


def _reached(run: CommittedRun) -> int | None:
    return None if run.result.has_diverged else run.result.rounds_to_target


def _at_target(line: SeedRuns[CommittedRun], name: str) -> SeedNumbers:
    """A column in the round that reaches the target."""
    rounds = min(run.result.rounds for run in line.runs)  # as far as all seeds got

    def value(run: CommittedRun) -> float | None:
        reached = _reached(run)
        return run.column(name)[reached - 1] if reached is not None and reached <= rounds else None

    return line.each(value)


def _row(line: SeedRuns[CommittedRun], common: Mapping[str, float]) -> Html:
    metric = line.metric
    found = [at_moment(line, axis, moment).times(metric.factor) for axis, moment in common.items()]
    numbers = [
        *row(line),
        *((n.text(f",.{metric.digits}f", "none yet") if n.by_seed else "diverged", n.mean) for n in found),
    ]
    cells = [el("td", words, class_="n", data_sort=v if math.isfinite(v) else "Infinity") for words, v in numbers]
    return el("tr", el("th", line.label, scope="row"), *cells)

"""The measured part of a paper's page: learning curves, cost to target, Pareto plots."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.metrics import interval_text, mean_interval, missed_text
from leaderboards.page import charts
from leaderboards.page.boards import Board, Line
from leaderboards.page.frame import scroll, sortable
from leaderboards.page.html import Html, el


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
    axes = ["round", *(["virtual_seconds"] if _differ(board) else [])]
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


def _differ(board: Board) -> bool:
    """Does a round take the methods different virtual times?"""
    paces = []
    for line in board.lines:
        ends = [column[-1] / len(column) for column in line.column("virtual_seconds") if column and column[-1]]
        paces += [mean_interval(ends)[0]] if ends else []
    return bool(paces) and max(paces) > charts.DIFFERENT * min(paces)


def costs(board: Board) -> Html:
    """Rounds, virtual seconds and bytes to the target."""
    goal = f"to {100 * board.target:g} %"
    names = ("Method", "Seeds", "Final %", "Best %", f"Rounds {goal}", f"Virtual s {goal}", f"MB {goal}")
    head = el("tr", *map(sortable, names))
    table = el("table", el("thead", head), el("tbody", *map(_row, board.lines)), class_="plain sortable")
    return scroll(table, f"Costs {goal}: {board.title}")


def row(line: Line) -> list[tuple[str, float]]:
    """Text and number of each column after the name."""
    reached = (None if r.diverged else r.result["rounds_to_target"] for r in line.results)
    rounds = [math.inf if v is None else float(v) for v in reached]
    seeds = len(line.results)
    return [
        (str(seeds), seeds),
        _mean([100 * v for v in line.numbers("final_accuracy")], 2, "diverged"),
        _mean([100 * v for v in line.numbers("best_accuracy")], 2, "diverged"),
        _mean(rounds, 1),
        _mean(line.at_target("virtual_seconds"), 1),
        _mean(line.at_target("megabytes"), 0),
    ]


def _row(line: Line) -> Html:
    cells = [el("td", words, class_="n", data_sort="Infinity" if math.isinf(v) else v) for words, v in row(line)]
    return el("tr", el("th", line.label, scope="row"), *cells)


def _mean(values: Sequence[float], digits: int, missing: str = "never") -> tuple[str, float]:
    if missed := sum(map(math.isinf, values)):
        return missed_text(missed, len(values), missing), math.inf
    return interval_text(values, f",.{digits}f"), mean_interval(values)[0]

"""python -m leaderboards build: Markdown and CSV tables, and a static site that works from file://."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from bench.output.metrics_csv import csv_text
from bench.record import make_folder, write_atomically
from leaderboards import results
from leaderboards.audit import markdown as audit_markdown
from leaderboards.controls import controls
from leaderboards.ledger import load
from leaderboards.measure import Shelf
from leaderboards.page import pages
from leaderboards.page import paper as one_paper
from leaderboards.page.boards import Board, boards
from leaderboards.page.details import read_as
from leaderboards.page.layout import Table, tables
from leaderboards.page.measured import row
from leaderboards.page.open import readings_page
from leaderboards.papers import Paper, papers
from leaderboards.results import CommittedRun
from leaderboards.show import measured, printed
from leaderboards.verdict import Verdict, verdicts

ASSETS = ("style.css", "site.js")
COLUMNS = (
    *("id", "claimed", "measured", "low", "high", "seeds", "scale", "verdict", "why"),
    *("deviations", "control", "read_as", "other_readings"),
)


def build(out: Path, found: Sequence[CommittedRun] | None = None) -> str:
    """Writes everything into `out` and says where; `found` are the results, by default the committed ones."""
    kept = results.committed() if found is None else tuple(found)
    judged, shelf, measured_boards = verdicts(load(), kept), Shelf(kept), boards(kept)
    make_folder(out)
    texts = {name: (files("leaderboards.page") / name).read_text(encoding="utf-8") for name in ASSETS}
    texts["index.html"] = pages.overview(judged, kept)
    texts["claims.html"] = pages.claims_page(judged)
    texts["readings.html"] = readings_page(shelf)
    texts["audit.html"] = pages.audit_page()
    texts["claims.csv"] = claims_csv(judged, shelf)
    texts["audit.md"] = f"# Audit of the papers\n\n{audit_markdown()}\n"
    for key, paper in papers().items():
        mine = [v for v in judged if v.claim.paper == key]
        its_boards = [board for board in measured_boards if board.paper == key]
        texts[f"{key}.html"] = one_paper.paper_page(paper, mine, its_boards, shelf)
        texts[f"{key}.md"] = paper_markdown(paper, mine, its_boards)
    texts["runs.csv"] = runs_csv(measured_boards)
    for name, text in texts.items():
        write_atomically(out / name, text)
    return f"{len(judged)} claims, {len(kept)} runs: open {out / 'index.html'}, or see {out}/*.md and *.csv."


def claims_csv(found: Sequence[Verdict], shelf: Shelf) -> str:
    rows = []
    for v in found:
        low, high = v.interval or ("", "")
        value = "" if v.measured is None else v.measured
        number = v.relation or ("never" if v.missed else value)
        listed = v.deviations, controls(v.claim, shelf), read_as(v, shelf), v.readings
        notes = map("; ".join, listed)
        rows.append([v.id, v.claim.text, number, low, high, v.seeds, v.scale or "", v.verdict, v.why, *notes])
    return csv_text([COLUMNS, *rows])


def runs_csv(found: Sequence[Board]) -> str:
    head = ["sweep", "dataset", "setting", "method", "seeds", "final", "best", "rounds", "virtual_seconds", "megabytes"]
    lines = [
        [board.sweep, board.dataset, board.setting, line.label, *(words for words, _ in row(line))]
        for board in found
        for line in board.lines
    ]
    return csv_text([head, *lines])


def paper_markdown(paper: Paper, found: Sequence[Verdict], its_boards: Sequence[Board]) -> str:
    parts = [f"# {paper.name}\n\n{paper.title}. {paper.venue}.", "Each cell: claimed / measured, verdict."]
    parts += [f"## {table.where}\n\n{_markdown_table(table)}" for table in tables(found)]
    for board in its_boards:
        goal = f"to {100 * board.target:g} %"
        head = ["method", "seeds", "final %", "best %", f"rounds {goal}", f"virtual s {goal}", f"MB {goal}"]
        lines = [[line.label, *(words for words, _ in row(line))] for line in board.lines]
        scale = f"scale {', '.join(board.scales)}"
        parts.append(f"## {board.sweep}: {board.title} ({scale})\n\n{_grid(head, lines)}")
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    head = [*table.heads, *(", ".join(column) for column in table.columns)]
    lines = [[*labels, *(_cell(v) for v in cells)] for labels, cells in table.rows]
    return _grid(head, lines)


def _cell(v: Verdict | None) -> str:
    return "" if v is None else f"{printed(v)} / {measured(v) or '–'}, {v.verdict}"


def _grid(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows)

"""The papers' tables, laid out as in the papers: which row and which column a claim stands in."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from leaderboards.ledger import Claim
from leaderboards.papers import papers, special
from leaderboards.verdict import Verdict

Labels = tuple[str, ...]
WORDS = {"-": "all methods", "all": "all data sets"}


@dataclass(frozen=True)
class TableLayout:
    """How claims become rows and columns."""

    row: Callable[[Claim], Labels]
    column: Callable[[Claim], Labels]
    heads: Labels  # above the labels of the rows
    order: Labels = ()  # of the columns, where not every row has them all


@dataclass(frozen=True)
class Table:
    """One table of a paper, filled."""

    where: str
    heads: Labels
    columns: tuple[Labels, ...]
    rows: tuple[tuple[Labels, tuple[Verdict | None, ...]], ...]


@cache
def _names() -> dict[str, str]:
    """By what claims call them: methods and data sets as their classes do, variants as their papers do."""
    found = dict(WORDS)
    sources = (file for package in ("algorithms", "datamodules") for file in files(package).iterdir())
    for text in (file.read_text(encoding="utf-8") for file in sources if file.name.endswith(".py")):
        classes = [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
        found |= {name.lower(): re.sub(r"(?<=[A-Z])(?=\d+$)|_", "-", name) for name in classes}
    for paper in papers():
        found |= special(paper).labels
    return found


def named(name: str) -> str:
    """A method or a data set for people."""
    return _names().get(name, name)


def method(claim: Claim) -> str:
    return " vs ".join(map(named, claim.method.split(" vs ")))


def dataset(claim: Claim) -> str:
    return named(claim.dataset)


def metric(claim: Claim) -> str:
    return claim.definition.label or claim.metric.replace("_", " ")


GENERAL = TableLayout(
    lambda c: (method(c), c.setting.replace(";", ", ")), lambda c: (dataset(c), metric(c)), ("Method", "Setting")
)


def tables(found: Sequence[Verdict]) -> list[Table]:
    """The verdicts of one paper as its tables, tables first."""
    places = list(dict.fromkeys(v.claim.where for v in found))
    places.sort(key=lambda where: not where.startswith("Table"))
    return [_table(where, [v for v in found if v.claim.where == where]) for where in places]


def _table(where: str, found: Sequence[Verdict]) -> Table:
    layout = special(found[0].claim.paper).layouts.get(where, GENERAL)
    columns = list(dict.fromkeys(layout.column(v.claim) for v in found))
    first = list(layout.order) or list(dict.fromkeys(column[0] for column in columns))
    columns.sort(key=lambda column: first.index(column[0]))
    cells: dict[Labels, dict[Labels, Verdict]] = {}
    for v in found:
        row, column = cells.setdefault(layout.row(v.claim), {}), layout.column(v.claim)
        if column in row:
            raise ValueError(f"two claims in one cell of {where}: {row[column].id} and {v.id}")
        row[column] = v
    rows = tuple((labels, tuple(row.get(column) for column in columns)) for labels, row in cells.items())
    return Table(where, layout.heads, tuple(columns), rows)

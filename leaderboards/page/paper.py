"""One paper's page: its tables, what was measured, every claim in detail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from leaderboards.measure import Shelf
from leaderboards.page.boards import Board
from leaderboards.page.details import GLYPHS, anchor, css, detail
from leaderboards.page.frame import filter_form, page, scroll, sortable
from leaderboards.page.html import Html, el, joined
from leaderboards.page.layout import Table, tables
from leaderboards.page.measured import section
from leaderboards.papers import Paper
from leaderboards.show import TIMES, measured, printed
from leaderboards.verdict import MEASURED, Verdict

LEGEND = "In each cell the paper's number or word stands above ours. A cell opens its runs and its command."


def paper_page(paper: Paper, found: Sequence[Verdict], boards: Sequence[Board], shelf: Shelf) -> str:
    parts = tables(found)
    jump = [el("li", el("a", table.where, href=f"#{_place(table.where)}")) for table in parts]
    if boards:
        jump.append(el("li", el("a", "Learning curves", href="#measured")))
    return page(
        paper.name,
        joined(
            el("h1", paper.name),
            el("p", f"{paper.title}. {paper.venue}.", class_="lead"),
            el("ul", *jump, class_="jump", aria_label="On this page"),
            filter_form(found),
            el("p", LEGEND, class_="quiet"),
            [_paper_table(table) for table in parts],
            section(boards) if boards else None,
            el("div", el("h2", "Every claim in detail"), *(detail(v, shelf) for v in found), class_="details"),
        ),
        f"{paper.key}.html",
    )


def _paper_table(table: Table) -> Html:
    deep = len(table.columns[0]) > 1
    span = {"rowspan": 2} if deep else {}
    heads = [el("th", head, scope="col", **span) for head in table.heads]
    widths = Counter(column[0] for column in table.columns)
    groups = [el("th", first, scope="colgroup", colspan=width, class_="group") for first, width in widths.items()]
    last = [sortable(column[-1]) for column in table.columns]
    lines = [el("tr", *heads, *groups), el("tr", *last)] if deep else [el("tr", *heads, *last)]
    rows = [
        el("tr", *(el("th", label, scope="row") for label in labels), *(_cell(v) for v in cells))
        for labels, cells in table.rows
    ]
    body = el("table", el("thead", *lines), el("tbody", *rows), class_="paper sortable", data_heads=len(table.heads))
    return el("section", el("h2", table.where), scroll(body, table.where), id=_place(table.where))


def _cell(v: Verdict | None) -> Html:
    if v is None:
        return el("td", "", class_="void")
    ours = measured(v)
    value = v.measured if v.verdict in MEASURED and v.measured is not None else v.claimed
    content = [
        el("span", _claimed(v), class_="claimed"),
        el("span", ours or "–", class_="measured"),
        el("span", GLYPHS[v.verdict], class_="glyph", aria_hidden="true"),
    ]
    title = f"{v.verdict}: {v.why}" if v.why else v.verdict
    label = f"claimed {printed(v)}, measured {ours or 'nothing'}, {v.verdict}"
    link = el("a", *content, href=f"#{anchor(v)}", title=title, aria_label=label)
    sort = "Infinity" if value is None else repr(float(value))
    return el("td", link, class_=f"cell {css(v.verdict)}", data_sort=sort, data_verdict=v.verdict)


def _claimed(v: Verdict) -> str:
    unit = {"%": " %", "x": TIMES}.get(v.claim.unit[:1], "")
    return v.claim.printed + unit + ("" if v.ratio is None else f" ({TIMES}{v.ratio:.2f})")


def _place(where: str) -> str:
    return "t-" + "".join(c if c.isalnum() else "-" for c in where.lower())

"""The page of readings: what each paper leaves open, how it can be read, and which reading counts by which runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from leaderboards.choose import decided, score
from leaderboards.measure import Shelf
from leaderboards.page.frame import page, scroll, sortable
from leaderboards.page.html import Html, el, joined
from leaderboards.papers import papers
from sweeps.readings import Open, questions

LEAD = (
    "What a paper leaves open, or says in two ways, has a finite list of readings. One of them counts: that which came "
    "nearest to the paper's numbers on calibration seeds, which judge nothing. Claims that agree in another reading "
    "only are shown as such, and not counted."
)


def readings_page(shelf: Shelf) -> str:
    parts = [el("h1", "Readings"), el("p", LEAD, class_="lead")]
    for key, paper in papers().items():
        if found := questions(key):
            parts += [el("h2", paper.name), *(_question(question, key, shelf) for question in found)]
    return page("Readings", joined(*parts), "readings.html")


def _question(question: Open, paper: str, shelf: Shelf) -> Html:
    by_reading = score(question, paper, shelf).by_reading
    concerns = f"{_listed(question.methods, 'all methods')} on {_listed(question.datasets, 'all data sets')}"
    rows = [
        el(
            "tr",
            el("th", reading.name, el("b", " (counts)") if reading.name == question.chosen else "", scope="row"),
            _margins(by_reading[reading.name]),
            el("td", el("code", reading.overrides)),
            el("td", reading.source),
            el("td", reading.why),
        )
        for reading in question.readings
    ]
    head = el("tr", *map(sortable, ("Reading", "Margins off", "Overrides", "In the paper", "Why it is plausible")))
    table = el("table", el("thead", head), el("tbody", *rows), class_="plain sortable words")
    return el(
        "article",
        el("h3", question.about, " ", el("small", concerns)),
        el("p", decided(question, paper, shelf), class_="quiet"),
        scroll(table, question.about),
    )


def _listed(patterns: Sequence[str], everything: str) -> str:
    names = (everything if pattern == "*" else pattern.replace("(*", "(...)") for pattern in patterns)
    return ", ".join(names)


def _margins(off: float) -> Html:
    known = not math.isnan(off)
    return el("td", f"{off:.2f}" if known else "not run", class_="n", data_sort=off if known else "Infinity")

"""What every page has: its frame, the filter, headers that sort, tables that scroll."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from leaderboards.page.details import badge
from leaderboards.page.html import Html, el
from leaderboards.papers import papers
from leaderboards.verdict import VERDICTS, Verdict


def page(title: str, content: object, current: str) -> str:
    """A whole document; everything it needs lies beside it."""
    names = [("index.html", "Overview"), *((f"{p.key}.html", p.name) for p in papers().values())]
    names += [("claims.html", "All claims"), ("readings.html", "Readings"), ("audit.html", "Audit")]
    links = [
        el("li", el("a", name, href=href, aria_current="page" if href == current else None)) for href, name in names
    ]
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{title} · fedbench"),
        el("link", rel="icon", href="data:,"),
        el("link", rel="stylesheet", href="style.css"),
        el("script", src="site.js", defer=True),
    )
    brand = el("a", "fedbench", href="index.html", class_="brand")
    close = el("button", "Close", type="button", class_="close")
    body = el(
        "body",
        el("a", "Skip to the content", href="#content", class_="skip"),
        el("header", brand, el("nav", el("ul", *links), aria_label="Pages")),
        el("main", content, id="content"),
        el(
            "footer",
            "Every number here is recomputed from files in leaderboards/ by ",
            el("code", "python -m leaderboards build"),
            ".",
        ),
        el("dialog", close, el("div", class_="body"), aria_label="A claim"),
    )
    return f"<!doctype html>\n{el('html', head, body, lang='en')}\n"


def filter_form(found: Sequence[Verdict]) -> Html:
    counts = Counter(v.verdict for v in found)
    boxes = []
    for name in VERDICTS:
        if counts[name]:
            box = el("input", type="checkbox", name="verdict", value=name, checked=True)
            boxes.append(el("label", box, badge(name), el("small", counts[name])))
    field = el("input", type="search", name="find", placeholder="Find a method, data set or setting")
    search = el("label", el("span", "Find", class_="sr"), field)
    return el(
        "form",
        search,
        el("fieldset", el("legend", "Verdicts", class_="sr"), *boxes),
        el("output", "", aria_live="polite"),
        class_="filter",
        role="search",
    )


def sortable(label: object) -> Html:
    return el("th", el("button", label, type="button"), scope="col", aria_sort="none")


def scroll(table: Html, label: str) -> Html:
    return el("div", table, class_="scroll", tabindex="0", role="region", aria_label=f"{label} (scrolls sideways)")

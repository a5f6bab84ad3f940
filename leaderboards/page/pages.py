"""The pages that are of no single paper: overview, all claims, audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from leaderboards.audit import slips
from leaderboards.page.details import GLYPHS, anchor, badge, css
from leaderboards.page.frame import filter_form, page, scroll, sortable
from leaderboards.page.html import Html, el, joined
from leaderboards.page.layout import dataset, method, metric
from leaderboards.papers import papers
from leaderboards.results import CommittedRun
from leaderboards.show import measured
from leaderboards.verdict import MEASURED, VERDICTS, Verdict

MEANINGS = {
    "exact": "our own code gives the printed digits; nothing is trained",
    "reproduced": "the whole interval lies within the margin, at the paper's scale, in the reading that counts",
    "direction only": "the ordering came out, the number did not or could not",
    "contradicted": "at the paper's scale, in every reading of what it leaves open, neither came out",
    "not confirmed": "measured, but too noisy, censored, or in runs too small or too few to contradict",
    "calibrated": "run only on the seeds by which a reading was chosen: counts for nothing",
    "consistent": "follows from the paper's own numbers, which is no reproduction",
    "inconsistent": "does not follow from the paper's own numbers",
    "not run": "there is a command, and no committed result yet",
    "cannot run here": "needs hardware or data that are not here, or is a yardstick",
}


def overview(found: Sequence[Verdict], runs: Sequence[CommittedRun]) -> str:
    counts = Counter((v.claim.paper, v.verdict) for v in found)
    judged = sum(v.verdict in MEASURED and bool(v.values) for v in found)
    three = sum(v.seeds >= 3 for v in found)
    figures = [
        (len(found), f"claims of {len(papers())} papers"),
        (judged, "measured by runs"),
        (three, "with three seeds or more"),
        (len(runs), "committed runs"),
        (f"{sum(run.result.wall_seconds or 0.0 for run in runs) / 3600:.1f}", "hours they took"),
    ]
    tiles = [el("li", el("b", number), el("span", words)) for number, words in figures]
    rows = [_verdict_row(name, counts) for name in VERDICTS]
    sums = [sum(counts[paper, name] for name in VERDICTS) for paper in papers()]
    foot = el("tr", el("th", "All", scope="row"), *(el("td", n, class_="n") for n in (*sums, len(found))), el("td", ""))
    links = [el("th", el("a", p.name, href=f"{p.key}.html"), scope="col", class_="n") for p in papers().values()]
    head = el(
        "tr", el("th", "Verdict", scope="col"), *links, el("th", "All", scope="col", class_="n"), el("th", "It means")
    )
    table = el("table", el("thead", head), el("tbody", *rows), el("tfoot", foot), class_="plain")
    lead = "Each number they print, each ordering they state has a row, a command that runs it again, and a verdict."
    return page(
        "Overview",
        joined(
            el("h1", "What federated-learning papers claim, and what comes out"),
            el("p", lead, class_="lead"),
            el("ul", *tiles, class_="tiles"),
            el("h2", "Claims by verdict"),
            _bars(counts),
            scroll(table, "Claims by verdict"),
            el(
                "p",
                "The rules, with margins and intervals, are in ",
                el("code", "docs/ledger.md"),
                "; they were written before any result was committed.",
            ),
        ),
        "index.html",
    )


def _bars(counts: Counter[tuple[str, str]]) -> Html:
    """One bar per paper, parts in the colours of the verdicts."""
    bars = []
    for paper, about in papers().items():
        total = sum(counts[paper, name] for name in VERDICTS)
        parts = [
            el(
                "span",
                GLYPHS[name] if counts[paper, name] > total / 30 else "",
                class_=css(name),
                style=f"flex-grow:{counts[paper, name]}",
                title=f"{counts[paper, name]} {name}",
            )
            for name in VERDICTS
            if counts[paper, name]
        ]
        label = f"{about.name}: verdicts of {total} claims"
        bar = el("div", *parts, class_="bar", role="img", aria_label=label)
        bars.append(el("li", el("a", about.name, href=f"{paper}.html"), bar))
    return el("ul", *bars, class_="bars")


def _verdict_row(name: str, counts: Counter[tuple[str, str]]) -> Html:
    numbers = [counts[paper, name] for paper in papers()]
    cells = [el("td", number or "–", class_="n") for number in (*numbers, sum(numbers))]
    return el("tr", el("th", badge(name), scope="row"), *cells, el("td", MEANINGS[name], class_="meaning"))


def claims_page(found: Sequence[Verdict]) -> str:
    heads = ("Method", "Data set", "Metric", "Claimed", "Measured", "Verdict", "Paper", "Where", "Setting")
    head = el("tr", *map(sortable, heads))
    table = el("table", el("thead", head), el("tbody", *map(_claim_row, found)), class_="plain sortable list")
    content = joined(el("h1", "All claims"), filter_form(found), scroll(table, "All claims"))
    return page("All claims", content, "claims.html")


def _claim_row(v: Verdict) -> Html:
    claim = v.claim
    link = el("a", claim.text, href=f"{claim.paper}.html#{anchor(v)}")
    claimed, ours = ("Infinity" if value is None else value for value in (v.claimed, v.measured))
    return el(
        "tr",
        *(el("td", word) for word in (method(claim), dataset(claim), metric(claim))),
        el("td", link, class_="n", data_sort=claimed),
        el("td", measured(v) or "–", class_="n", data_sort=ours),
        el("td", badge(v.verdict)),
        *(el("td", word) for word in (papers()[claim.paper].name, claim.where, claim.setting.replace(";", ", "))),
        data_verdict=v.verdict,
    )


def audit_page() -> str:
    rows = [
        el("tr", el("td", papers()[s.paper].name), el("td", s.where), el("td", s.says), el("td", s.computed))
        for s in slips()
    ]
    head = el("tr", *map(sortable, ("Paper", "Where", "It says", "Computed")))
    table = el("table", el("thead", head), el("tbody", *rows), class_="plain sortable words")
    lead = "Where the papers do not agree with themselves. Each line is computed, and a test runs it."
    content = joined(el("h1", "Audit of the papers"), el("p", lead, class_="lead"), scroll(table, "Audit"))
    return page("Audit", content, "audit.html")

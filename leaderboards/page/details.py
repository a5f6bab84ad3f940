"""What a cell opens: everything known about one claim, its runs and its command."""

from __future__ import annotations

import math

from leaderboards.choose import decided
from leaderboards.commands import recipe
from leaderboards.controls import controls
from leaderboards.measure import Shelf
from leaderboards.page.html import Html, el
from leaderboards.page.layout import dataset, method, metric
from leaderboards.results import CommittedRun
from leaderboards.show import measured, printed
from leaderboards.verdict import MEASURED, Verdict, asked_of, seeds_fixed

GLYPHS = {
    **{"exact": "=", "reproduced": "✓", "direction only": "↗", "contradicted": "✕", "not confirmed": "?"},
    "calibrated": "◦",
    **{"consistent": "≡", "inconsistent": "≠", "not run": "·", "cannot run here": "–"},
}


def anchor(v: Verdict) -> str:
    return "c-" + v.id


def badge(verdict: str) -> Html:
    glyph = el("span", GLYPHS[verdict], class_="glyph", aria_hidden="true")
    return el("span", glyph, verdict, class_=f"badge {css(verdict)}")


def css(verdict: str) -> str:
    return "v-" + verdict.replace(" ", "-")


def detail(v: Verdict, shelf: Shelf) -> Html:
    """A section that stands by itself; the script shows it in a dialogue."""
    claim = v.claim
    title = f"{method(claim)} on {dataset(claim)}: {metric(claim)}"
    facts = [
        ("Claimed", printed(v)),
        ("Measured", measured(v) or "–"),
        ("95 % interval", _interval(v)),
        ("Seeds", _seeds(v)),
        ("Each seed", ", ".join(f"{seed}: {_value(value)}" for seed, value in v.values)),
        ("Scale", v.scale or ""),
        ("Setting", claim.setting.replace(";", ", ")),
        ("Why", v.why),
    ]
    rows = [el("div", el("dt", name), el("dd", value)) for name, value in facts if value]
    return el(
        "section",
        el("h3", title, " ", badge(v.verdict)),
        el("p", el("code", claim.id), class_="quiet"),
        el("dl", *rows, class_="facts"),
        _listed("Deviations", list(v.deviations)),
        _listed("Read as", read_as(v, shelf)),
        _listed("In other readings", list(v.readings)),
        _listed("Equal-rate control", controls(claim, shelf)),
        _runs(v),
        _command(v),
        class_="claim",
        id=anchor(v),
        tabindex="-1",
    )


def read_as(v: Verdict, shelf: Shelf) -> list[str]:
    """What its paper leaves open of it: the answer that counts, and what that was chosen by."""
    return [
        f"{question.about}: {question.chosen} ({decided(question, v.claim.paper, shelf)})"
        for question in asked_of(v.claim)
    ]


def _seeds(v: Verdict) -> str:
    if v.verdict not in MEASURED or not v.values:
        return ""
    return f"{v.seeds} of {seeds_fixed(v.claim)} fixed beforehand"


def _interval(v: Verdict) -> str:
    return "" if v.interval is None else f"{v.interval[0]:.4g} to {v.interval[1]:.4g}"


def _value(value: float) -> str:
    if math.isnan(value):
        return "neither"
    return "never" if math.isinf(value) else f"{value:.4g}"


def _listed(title: str, items: list[str]) -> Html | None:
    return el("div", el("h4", title), el("ul", *(el("li", item) for item in items))) if items else None


def _runs(v: Verdict) -> Html | None:
    if not v.results:
        return None
    names = ("Run", "Seed", "Final", "Best", "Rounds to target", "Commit")
    head = el("tr", *(el("th", name, scope="col") for name in names))
    table = el("table", el("thead", head), el("tbody", *map(_run, v.results)), class_="plain")
    return el("div", el("h4", "Runs"), el("div", table, class_="scroll", tabindex="0", role="group", aria_label="Runs"))


def _run(run: CommittedRun) -> Html:
    result, reached = run.result, run.result.rounds_to_target
    return el(
        "tr",
        el("th", run.config["algo"]["name"], " ", el("code", f"results/{run.name}.json"), scope="row"),
        el("td", run.seed),
        *(
            el("td", "diverged" if value is None else result.metric.text(value))
            for value in (result.final, result.best)
        ),
        el("td", "never" if reached is None else reached),
        el("td", el("code", str(result.git_revision)[:10])),
    )


def _command(v: Verdict) -> Html:
    button = el("button", "Copy", type="button", class_="copy")
    code = el("pre", el("code", recipe(v.claim).text().partition("\n")[2]), tabindex="0")
    return el("div", el("h4", "How to run it again"), el("div", code, button, class_="command"))

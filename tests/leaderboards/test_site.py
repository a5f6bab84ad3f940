"""The static site: what is in it, that it needs no network, that nothing reaches it unescaped."""

from __future__ import annotations

import csv
import io
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import made
import pytest
from nothing_open import nothing_open

from bench.metrics import ACCURACY, Metric
from bench.output import curves
from leaderboards import __main__ as command
from leaderboards import results
from leaderboards.ledger import load
from leaderboards.page import charts
from leaderboards.page.boards import boards
from leaderboards.page.build import build
from leaderboards.page.html import Html, el, joined
from leaderboards.page.layout import tables
from leaderboards.page.measured import section
from leaderboards.papers import fed2a, papers
from leaderboards.verdict import verdicts

TABLE_3 = {"fmnist": (206_592, 3_413_770), "cifar10": (829_184, 9_574_154), "gtsrb": (209_792, 2_403_499)}
EVIL = "<script>alert('x')</script>\" onload=\"y"


@pytest.fixture(scope="module")
def found():
    runs = made.table_vi({"fedavg": [114, 116, 118], "fedlga": [59, 60, 61], "scaffold": [70, None, 75]})
    runs += made.table_vi({"fedlga": [100, 101, 102]}, tau_max="0.2E")
    runs.append(replace(runs[0], group=EVIL, command=EVIL))
    return runs


@pytest.fixture(scope="module")
def site(tmp_path_factory, found):
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch, nothing_open():
        patch.setattr(fed2a, "layers", lambda: TABLE_3)
        build(folder, found)
    return folder


class Reader(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "link", "input", "br", "col"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_pages_are_whole_and_need_no_network(site):
    pages = sorted(path.name for path in site.glob("*.html"))
    named = ("index", "claims", "readings", "audit", *papers())
    assert pages == sorted(f"{name}.html" for name in named)
    for name in pages:
        text = (site / name).read_text()
        reader = Reader(text)
        assert reader.open == []
        ids = [value for key, value in reader.attributes if key == "id"]
        assert len(ids) == len({*ids})
        for key, value in reader.attributes:
            assert not (key in ("src", "href") and re.match(r"(https?:)?//", value)), (name, value)
            assert not key.startswith("on")
            if key == "href" and value.startswith("#"):
                assert value[1:] in ids, value
    assert "http" not in (site / "style.css").read_text() + (site / "site.js").read_text()


def test_every_claim_has_a_cell_and_a_detail_with_its_command(site):
    for paper in papers():
        text = (site / f"{paper}.html").read_text()
        for claim in (c for c in load() if c.paper == paper):
            assert text.count(f'href="#c-{claim.id}"') == 1
            assert text.count(f'id="c-{claim.id}"') == 1
    text = (site / "fedlga.html").read_text()
    assert "dataset=fmnist protocol=fedlga devices.tau_max=4 scale=paper seed=0" in text


def test_tables_have_the_papers_rows_and_columns():
    judged = verdicts(load(), found=())
    lga = {t.where: t for t in tables([v for v in judged if v.claim.paper == "fedlga"])}
    assert [labels for labels, _ in lga["Table VI"].rows][:5] == [
        *(("FedLGA", f"0.{k}E") for k in (8, 6, 4, 2)),
        ("FedAvg", "–"),
    ]
    assert [v.claim.printed for v in lga["Table VI"].rows[4][1]] == ["116", "350", "277"]
    agg = {t.where: t for t in tables([v for v in judged if v.claim.paper == "fedagg"])}["Table III"]
    assert agg.columns[:2] == (("FedAvg", "20%"), ("FedAvg", "100%"))
    linear = dict(agg.rows)["MNIST + Linear", "IID"]
    assert [v.claim.printed if v else "-" for v in linear[-4:]] == ["90.21", "90.29", "90.35", "90.77"]
    assert sum(v is not None for t in agg.rows for v in t[1]) == 178


def test_cells_show_the_claim_above_what_was_measured_in_the_colour_of_the_verdict(site):
    text = (site / "fedlga.html").read_text()
    name = "c-fedlga/table-vi/fedavg/fmnist/rho=0.5+tau_max=0.8e+e=5/rounds_to_target"
    cell = re.search(rf'<td class="cell ([^"]+)"[^>]*><a href="#{re.escape(name)}".*?</td>', text)
    assert cell[1] == "v-reproduced"
    assert re.search(r'"claimed">116</span><span class="measured">116.0 ± 5.0</span>', cell[0])
    never = re.search(r'href="#c-fedlga/table-vi/scaffold/fmnist/.*?</td>', text)[0]
    assert "never (1 of 3)" in never


def test_text_is_escaped_everywhere(site):
    assert el("p", EVIL, title=EVIL) == (
        '<p title="&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&quot; onload=&quot;y">'
        "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&quot; onload=&quot;y</p>"
    )
    assert joined("<", Html("<b>"), None, ["&"]) == "&lt;<b>&amp;"
    assert all("<script>alert" not in path.read_text() for path in site.glob("*.html"))


def test_names_that_users_give_are_escaped_in_charts_and_details(tmp_path, monkeypatch):
    monkeypatch.setattr(fed2a, "layers", lambda: TABLE_3)
    runs = made.table_vi({"fedavg": [3, 4], "fedlga": [2, 3]}, git_revision=EVIL)
    for run in runs:
        run.config["algo"]["name"] = EVIL
        run.plan[0].differs[EVIL] = (1, 2)
    build(tmp_path, runs)
    text = (tmp_path / "fedlga.html").read_text()
    assert "&lt;script&gt;alert" in text and "<script>alert" not in text
    assert Reader(text).open == []


def test_markdown_and_csv_say_the_same(site):
    rows = {row["id"]: row for row in csv.DictReader(io.StringIO((site / "claims.csv").read_text()))}
    assert len(rows) == len(load())
    row = rows["fedlga/table-vi/fedlga/fmnist/rho=0.5+tau_max=0.8e+e=5/rounds_to_target"]
    assert (row["claimed"], float(row["measured"]), row["seeds"], row["verdict"]) == (
        "60 rounds",
        60,
        "3",
        "reproduced",
    )
    assert rows["fedlga/table-vi/scaffold/fmnist/rho=0.5+tau_max=0.8e+e=5/rounds_to_target"]["measured"] == "never"
    markdown = (site / "fedlga.md").read_text()
    assert "| FedLGA | 0.8E | 60 rounds / 60.0 ± 2.5, reproduced |" in markdown
    assert "fedlga/table6: FMNIST" in markdown
    runs = (site / "runs.csv").read_text().splitlines()
    assert any(line.startswith("fedlga/table6,fmnist,rho=0.5;tau_max=0.8E;E=5,SCAFFOLD,3,") for line in runs)


def test_a_curve_is_the_mean_and_its_band_the_lowest_and_highest_seed(found):
    board = next(b for b in boards(found) if len(b.lines) == 3)
    line = next(line for line in board.lines if line.label == "FedAvg")
    curve = curves.curve(line, "round", charts.POINTS)
    at = curve.x.index(115) if 115 in curve.x else min(range(len(curve.x)), key=lambda i: abs(curve.x[i] - 115))
    expected = [66 if curve.x[at] >= n else 30 for n in (114, 116, 118)]
    assert curve.mean[at] == pytest.approx(sum(expected) / 3)
    assert (curve.low[at], curve.high[at]) == pytest.approx((min(expected), max(expected)))
    assert curve.x[-1] == 200 and len(curve.x) <= charts.POINTS + 1
    seconds = curves.curve(line, "virtual_seconds", charts.POINTS)
    assert seconds.x[-1] == 400


def test_a_diverged_run_is_shown_as_one(tmp_path, monkeypatch):
    monkeypatch.setattr(fed2a, "layers", lambda: TABLE_3)
    runs = made.table_vi({"fedavg": [3, 4], "fedlga": [2]})
    none = {name: [] for name in runs[0].rows}
    facts = {"final": None, "best": None, "rounds": 0, "rounds_to_target": None}
    runs.append(replace(runs[2], name="early", config={**runs[2].config, "seed": 1}, rows=none))
    runs[3] = replace(runs[3], result=replace(runs[2].result, **facts))
    build(tmp_path, runs)
    lines = (tmp_path / "runs.csv").read_text().splitlines()
    [line] = [line for line in lines if ",FedLGA,2," in line]
    assert "diverged (1 of 2)" in line and "never (1 of 2)" in line


def test_a_pareto_front_holds_what_nothing_cheaper_beats():
    points = [(1, 5), (2, 4), (3, 7), (3, 6), (4, 7)]
    assert charts._front(points, ACCURACY) == [(1, 5), (3, 7)]
    assert charts._front(points, Metric("rmse", "RMSE", higher=False)) == [(1, 5), (2, 4)]


def test_the_verb_builds_from_committed_results(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(results, "committed", lambda: ())
    monkeypatch.setattr(fed2a, "layers", lambda: TABLE_3)
    monkeypatch.setattr(sys, "argv", ["leaderboards", "build", "--out", str(tmp_path / "x")])
    assert command.main() == 0
    assert capsys.readouterr().out.startswith(f"{len(load())} claims, 0 runs: open ")
    assert "What was measured" not in (tmp_path / "x" / "fedlga.html").read_text()


def test_schedules_that_differ_are_shown_over_time_and_traffic_and_at_one_moment():
    def page(pace):
        curve = [made.crossing(reached, 100, 0.82) for reached in (80, 60)]
        found = [
            made.result("fedlc/degrees", method, "emnist_byclass", "degree-3;simulation", accuracy=one, pace=seconds)
            for method, one, seconds in zip(("fedavg", "fedlc"), curve, (10.0, pace), strict=True)
        ]
        return section(boards(found))

    differ, same = page(1.0), page(10.0)
    for axis in ("virtual time (s)", "traffic of all devices (MB)"):
        assert f"Test accuracy over {axis}" in differ and f"Test accuracy over {axis}" not in same
    rows = re.findall(r'<th scope="row">(\w+)</th>(.*?)</tr>', differ)
    at_100_seconds = {name: re.findall(r">([^<]+)</td>", cells)[-2] for name, cells in rows}
    assert at_100_seconds == {"FedLC": "83.00", "FedAvg": "30.00"}
    assert "% at 100 virtual s" in differ and "MB sent up" in differ
    assert "% at" not in same


def test_the_site_says_what_was_measured_and_that_lower_is_better():
    metric = Metric("rmse", "RMSE", higher=False)

    def committed(method, ends):
        (run,) = made.table_vi({method: [2]})
        values = [70.0] * (len(run.rows["test_accuracy"]) - 1) + [ends]
        rows = {"test_rmse": values, **{name: of for name, of in run.rows.items() if name != "test_accuracy"}}
        result = replace(run.result, metric=metric, final=ends, best=ends, target=56.0, rounds_to_target=None)
        return replace(run, rows=rows, result=result)

    found = boards([committed("fedavg", 60.0), committed("fedlga", 50.0)])
    assert [line.numbers("final").mean for line in found[0].lines] == [50.0, 60.0]
    page = str(section(found))
    assert "RMSE over round" in page and "Rounds to 56" in page and "Final RMSE" in page and "60.00" in page
    assert "ccuracy" not in page and "%" not in page

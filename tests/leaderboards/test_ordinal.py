"""Ordinal claims, which say who is ahead and no number, from made-up results: the rules of docs/ledger.md."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from unittest import mock

import made
import pytest
from nothing_open import nothing_open

from leaderboards import seeds
from leaderboards.commands import recipe
from leaderboards.ledger import load
from leaderboards.page.build import build
from leaderboards.papers import fed2a, papers
from leaderboards.plans import cell
from leaderboards.rivals import compared
from leaderboards.show import measured
from leaderboards.verdict import verdicts
from sweeps import readings
from sweeps.fedlga import FEDLGA

TABLE_3 = {"fmnist": (206_592, 3_413_770), "cifar10": (829_184, 9_574_154), "gtsrb": (209_792, 2_403_499)}
CLAIMS = {claim.id: claim for claim in load()}
SIMILAR = "fedlga/fig-7-text/fedlga-vs-fedavg/fmnist/rho=0.1+e=5/rounds_order"
BETTER = "fedlga/fig-7-text/fedlga-vs-fedavg/cifar100/rho=0.1+e=5/rounds_order"
BEST = "fedlga/fig-5-text/fedlga-vs-fedavg/fmnist/rho=0.5+tau_max=e-1+e=5/best_accuracy_order"
LATE = "fedlga/fig-7-text/fedlga/fmnist/rho=0.1+e=5-vs-rho=0.5/rounds_order"
ALPHA = "fedagg/fig-12-text/fedagg/mnist/dist=iid+alpha=0.01-vs-alpha=0.1/accuracy_order"
SLOWER = "fedlc/sec-5.2.1/afo-vs-fedavg/cifar10/degree-1+simulation+target=0.6/time_order"


@pytest.fixture(autouse=True)
def _no_models(monkeypatch):
    monkeypatch.setattr(fed2a, "layers", lambda: TABLE_3)


def judged(name, found):
    with nothing_open():
        [v] = verdicts([CLAIMS[name]], found)
    return v


def fig7(name, rounds, scale="paper", rho=0.1, first=0):
    """Rounds to the target per method, one per seed, on the claim's data set."""
    return [
        made.result(
            *("fedlga/fig7", method, CLAIMS[name].dataset, f"rho={rho};E=5"),
            **{"seed": seed, "accuracy": made.crossing(n, 400), "scale": scale},
        )
        for method, each in rounds.items()
        for seed, n in enumerate(each, first)
    ]


AHEAD = {"fedlga": [60, 64, 62], "fedavg": [100, 110, 105]}
BEHIND = {"fedlga": [100, 110, 105], "fedavg": [60, 64, 62]}
EQUAL = {"fedlga": [100, 110, 105], "fedavg": [101, 110, 104]}
NOISY = {"fedlga": [60, 130, 100], "fedavg": [100, 100, 100]}


@pytest.mark.parametrize(
    ("name", "rounds", "scale", "verdict", "relation"),
    [
        (BETTER, AHEAD, "paper", "reproduced", "better"),
        (BETTER, BEHIND, "paper", "contradicted", "worse"),
        (BETTER, EQUAL, "paper", "contradicted", "similar"),
        (BETTER, NOISY, "paper", "not confirmed", "unclear"),
        (BETTER, AHEAD, "cpu", "direction only", "better"),
        (BETTER, BEHIND, "cpu", "not confirmed", "worse"),
        (SIMILAR, EQUAL, "paper", "reproduced", "similar"),
        (SIMILAR, AHEAD, "paper", "contradicted", "better"),
        (SIMILAR, NOISY, "paper", "not confirmed", "unclear"),
        (SIMILAR, EQUAL, "cpu", "direction only", "similar"),
    ],
)
def test_the_relation_of_the_paired_runs_decides(name, rounds, scale, verdict, relation):
    v = judged(name, fig7(name, rounds, scale))
    assert (v.verdict, v.relation, v.seeds, v.scale, v.claimed) == (verdict, relation, 3, scale, None)
    assert f"claimed: {CLAIMS[name].printed}; ours, 3 paired seeds, uncorrected: {relation}" in v.why


def test_an_unclear_one_says_that_it_is_noise_and_what_was_measured_stands_beside_the_word():
    v = judged(BETTER, fig7(BETTER, NOISY))
    assert v.why.startswith("too noisy; ")
    assert v.measured == pytest.approx((-40 + 30 + 0) / 3)
    assert measured(judged(BETTER, fig7(BETTER, {"fedlga": [60] * 3, "fedavg": [100] * 3}))) == "better (-40.0 ± 0.0 %)"


def test_fewer_seeds_than_were_fixed_beforehand_decide_nothing():
    v = judged(BETTER, fig7(BETTER, {method: each[:2] for method, each in AHEAD.items()}))
    assert (v.verdict, v.relation) == ("not confirmed", "unclear")
    assert v.why.startswith("2 of the 3 seeds fixed beforehand")


def test_without_the_runs_of_both_it_is_not_run_and_has_their_commands():
    v = judged(BETTER, fig7(BETTER, {"fedlga": [60, 61, 62]}))
    assert (v.verdict, measured(v)) == ("not run", "")
    r = recipe(CLAIMS[BETTER])
    assert r.sweep == "python -m sweeps fedlga/fig7 dataset=cifar100 method=fedlga,fedavg"
    assert [("algo=fedlga" in run, "devices.rho=0.1" in run) for run in r.runs] == [(True, True), (False, True)]


def test_targets_that_are_missed_on_both_sides_tell_nothing_and_on_one_side_three_may_be_chance():
    neither = judged(BETTER, fig7(BETTER, {"fedlga": [None] * 3, "fedavg": [None] * 3}))
    assert (neither.verdict, neither.seeds, neither.relation) == ("not confirmed", 3, "unclear")
    assert neither.why.startswith("only 0 pairs tell which is ahead")
    assert measured(neither) == "unclear (a target was missed)"
    one = judged(BETTER, fig7(BETTER, {"fedlga": [60] * 3, "fedavg": [None] * 3}))
    assert (one.verdict, one.relation) == ("not confirmed", "unclear")
    assert one.why.startswith("only 3 pairs tell which is ahead")
    with mock.patch.object(seeds, "ENOUGH", 6):
        six = judged(BETTER, fig7(BETTER, {"fedlga": [60] * 6, "fedavg": [None] * 6}))
    assert (six.verdict, six.relation) == ("reproduced", "better")


def test_from_five_pairs_on_orderings_of_one_data_set_are_corrected():
    """p = 0.02 alone; among eight of its kind that is chance."""
    alone = {"fedlga": [100] * 5, "fedavg": [182, 114, 143, 222, 118]}
    others = ("fedprox", "fednova", "scaffold", "feddyn", "fedcm", "mimelite", "fedsam")
    with mock.patch.object(seeds, "ENOUGH", 5):
        assert judged(BETTER, fig7(BETTER, alone)).verdict == "reproduced"
        v = judged(BETTER, fig7(BETTER, alone | {name: [143, 77, 111, 83, 100] for name in others}))
    assert (v.verdict, v.relation) == ("not confirmed", "unclear")
    assert "5 paired seeds, corrected by Holm" in v.why


def test_calibration_seeds_count_for_nothing():
    v = judged(BETTER, fig7(BETTER, AHEAD, first=100))
    assert (v.verdict, v.relation, v.seeds) == ("calibrated", "", 3)
    assert measured(v) == "(-40.9 ± 2.3 %)"


@pytest.mark.parametrize(
    ("rounds", "verdict", "reason"),
    [
        (BEHIND, "not confirmed", "another reading agrees, or has not been run at the paper's scale"),
        (AHEAD, "direction only", "it agrees, but no sweep at the paper's scale has decided how to read FedLGA's"),
    ],
)
def test_what_the_paper_leaves_open_neither_contradicts_nor_reproduces(rounds, verdict, reason):
    undecided = {paper: tuple(replace(one, sweep=None) for one in readings.questions(paper)) for paper in papers()}
    with mock.patch.object(seeds, "planned", dict), mock.patch.object(readings, "questions", undecided.__getitem__):
        readings.open_for.cache_clear()
        [v] = verdicts([CLAIMS[BETTER]], fig7(BETTER, rounds))
    readings.open_for.cache_clear()
    assert v.verdict == verdict
    assert v.why.startswith(reason)


@pytest.mark.parametrize(
    ("other", "verdict", "words"),
    [
        ((0.8, 0.8, 0.8), "not confirmed", "minus: +5.0 ± 0.0 points, agrees"),
        ((0.7, 0.8, 0.74), "not confirmed", "minus: -0.3 ± 12.5 points, too noisy"),
        ((0.75, 0.75, 0.75), "contradicted", "minus: +0.0 ± 0.0 points, differs"),
    ],
)
def test_a_contradiction_takes_every_reading(monkeypatch, other, verdict, words):
    two = replace(FEDLGA, readings=tuple(r for r in FEDLGA.readings if r.name in ("minus", FEDLGA.chosen)), sweep="x")
    monkeypatch.setattr(readings, "questions", lambda paper: (two,))
    monkeypatch.setattr(seeds, "planned", dict)
    readings.open_for.cache_clear()
    at, late = "rho=0.5;tau_max=E-1;E=5", "rho=0.5;tau_max=0.8E;E=5"
    found = [
        made.result(sweep, method, "fmnist", setting, seed=s, accuracy=[a], point=point)
        for sweep, method, setting, each, point in (
            ("fedlga/table5", "fedavg", at, (0.75,) * 3, 0),
            ("fedlga/table5", "fedlga", at, (0.7,) * 3, 0),
            ("fedlga/readings", "fedlga", late, other, [r.name for r in FEDLGA.readings].index("minus")),
        )
        for s, a in enumerate(each)
    ]
    [v] = verdicts([CLAIMS[BEST]], found)
    readings.open_for.cache_clear()
    assert (v.verdict, v.relation, v.readings) == (verdict, "worse", (words,))


def test_one_method_in_two_settings():
    assert compared(CLAIMS[LATE]) == (
        cell("fedlga", "fedlga", "fmnist", "rho=0.1;E=5"),
        [cell("fedlga", "fedlga", "fmnist", "rho=0.5")],
    )
    few, many = {"fedlga": [50, 52, 51]}, {"fedlga": [60, 64, 62]}
    assert judged(LATE, fig7(LATE, few) + fig7(LATE, many, rho=0.5)).verdict == "reproduced"
    assert judged(LATE, fig7(LATE, many) + fig7(LATE, few, rho=0.5)).verdict == "contradicted"
    assert judged(LATE, fig7(LATE, few)).verdict == "not run"


@pytest.mark.parametrize(
    ("ahead", "verdict", "relation"),
    [(0.02, "reproduced", "better"), (0.005, "contradicted", "similar"), (-0.02, "contradicted", "worse")],
)
def test_accuracies_are_apart_if_it_is_more_than_a_point(ahead, verdict, relation):
    runs = [
        made.result("fedagg/fig12", "fedagg", "mnist", f"dist=IID;alpha={alpha}", seed=s, accuracy=[0.2, a + more])
        for alpha, more in ((0.01, ahead), (0.1, 0.0))
        for s, a in enumerate((0.86, 0.88, 0.9))
    ]
    v = judged(ALPHA, runs)
    assert (v.verdict, v.relation) == (verdict, relation)
    assert v.measured == pytest.approx(100 * ahead)


@pytest.mark.parametrize(("pace", "verdict"), [(3.0, "reproduced"), (1.0, "contradicted")])
def test_who_takes_longer_is_worse(pace, verdict):
    """In virtual seconds to the claim's own target, not in rounds."""
    runs = [
        made.result(
            *("fedlc/degrees", method, "cifar10", "degree-1;simulation;target=0.6"),
            **{"seed": s, "accuracy": made.crossing(50, 100, 0.6), "pace": each, "target": 0.9},
        )
        for method, each in (("afo", pace), ("fedavg", 2.0))
        for s in range(3)
    ]
    assert judged(SLOWER, runs).verdict == verdict


def test_the_site_and_its_tables_show_the_word(tmp_path):
    with nothing_open():
        build(tmp_path, fig7(BETTER, AHEAD))
    page = (tmp_path / "fedlga.html").read_text()
    assert '"claimed">better</span><span class="measured">better (-40.9 ± 2.3 %)</span>' in page
    assert '"claimed">similar</span><span class="measured">–</span>' in page
    assert "| FedLGA vs FedAvg | rho=0.1, E=5 |" in (tmp_path / "fedlga.md").read_text()
    rows = {row["id"]: row for row in csv.DictReader(io.StringIO((tmp_path / "claims.csv").read_text()))}
    assert (rows[BETTER]["claimed"], rows[BETTER]["measured"], rows[BETTER]["verdict"]) == (
        *("better", "better", "reproduced"),
    )
    assert (rows[SIMILAR]["claimed"], rows[SIMILAR]["measured"], rows[SIMILAR]["verdict"]) == ("similar", "", "not run")

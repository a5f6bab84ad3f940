"""Which reading of a paper counts, what the others are for, and how plans that change find their results again."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import replace

import made
import pytest

from bench.prepare import compose
from leaderboards import choose, results, seeds
from leaderboards.ledger import load
from leaderboards.measure import Shelf
from leaderboards.papers import papers
from leaderboards.plans import every
from leaderboards.replan import replan
from leaderboards.verdict import verdicts
from sweeps import fed2a, fedagg, fedlc, readings
from sweeps.readings import CHOOSING, combinations, open_for

IID = "model=Linear;dist=IID;participation=20%"
CLAIM = "fedagg/table-v/fedyogi/mnist/model=linear+dist=iid+participation=20/final_accuracy"  # 89.92


@pytest.fixture
def question(monkeypatch):
    """The server's rate is open, and nothing else; which value counts is decided, and three seeds are asked for."""
    monkeypatch.setattr(seeds, "planned", dict)
    only = replace(fedagg.SERVER_RATE, chosen="eta_s=0.03", sweep="fedagg/readings")
    monkeypatch.setattr(readings, "questions", lambda paper: (only,) if paper == "fedagg" else ())
    readings.open_for.cache_clear()
    yield only
    readings.open_for.cache_clear()


def runs(rate, accuracy, seeds):
    """Runs of FedYogi that end near this accuracy, in one reading."""
    places = [p for p in every() if (p.sweep.name, *p.run.label) == ("fedagg/readings", "fedyogi", "mnist", IID)]
    [point] = [k for k, place in enumerate(places) if f"algo.eta_s={rate}" in place.run.overrides]
    return [
        made.result(
            *("fedagg/readings", "fedyogi", "mnist", IID),
            **{"seed": seed, "accuracy": [0.1, accuracy + 0.0005 * k], "target": 0.85, "point": point},
        )
        for k, seed in enumerate(seeds)
    ]


def judged(found):
    [v] = [v for v in verdicts(load(), found) if v.id == CLAIM]
    return v


def test_the_reading_that_counts_is_among_the_declared_ones_and_all_set_the_same_keys():
    for paper in papers():
        for one in readings.questions(paper):
            names = [reading.name for reading in one.readings]
            assert one.chosen in names and len(set(names)) == len(names)
            assert {frozenset(word.partition("=")[0] for word in r.words) for r in one.readings} == {one.keys}
            assert all(reading.source and reading.why for reading in one.readings)


def test_a_run_answers_by_the_keys_it_sets_and_otherwise_as_is_chosen(question):
    assert question.reading(["algo=fedyogi", "algo.eta_s=0.1"]) == "eta_s=0.1"
    assert question.reading(["algo=fedyogi"]) == "eta_s=0.03"
    assert question.reading(["algo=fedyogi", "algo.eta_s=0.5"]) is None
    assert combinations(open_for("fedagg", "fedyogi", "mnist")) == (("eta_s=0.03",), ("eta_s=0.01",), ("eta_s=0.1",))
    assert combinations(open_for("fedagg", "fedavg", "mnist")) == ((),)


def test_only_the_chosen_reading_reproduces_and_another_that_agrees_is_shown(question):
    wrong, right = runs(0.03, 0.80, range(3)), runs(0.01, 0.8992, CHOOSING)
    assert judged(runs(0.03, 0.8992, range(3)) + right).verdict == "reproduced"
    v = judged(wrong + right)
    assert v.verdict == "not confirmed"
    assert any(text.startswith("eta_s=0.01: 89.9") and "agrees" in text for text in v.readings)


def test_nothing_is_reproduced_before_a_sweep_has_decided_how_to_read_it(question, monkeypatch):
    monkeypatch.setattr(readings, "questions", lambda paper: (replace(question, sweep=None),))
    readings.open_for.cache_clear()
    v = judged(runs(0.03, 0.8992, range(3)))
    assert v.verdict == "not confirmed" and v.why.startswith("it agrees, but no sweep at the paper's scale has decided")


def test_a_contradiction_needs_every_reading_to_have_been_run(question):
    # FedAgg itself, the rival, is clearly ahead, where the paper prints a tie
    rival = [
        made.result("fedagg/table5", "fedagg", "mnist", IID, seed=s, accuracy=[0.1, 0.9 + 0.0005 * s], target=0.85)
        for s in range(3)
    ]
    off = [runs(rate, 0.80, CHOOSING) for rate in (0.01, 0.1)]
    mine = runs(0.03, 0.80, range(3)) + rival
    assert judged(mine + off[0]).verdict == "not confirmed"
    assert "not run: eta_s=0.1" in judged(mine + off[0]).readings
    assert judged(mine + off[0] + off[1]).verdict == "contradicted"


def test_the_nearest_on_calibration_seeds_is_chosen_and_judged_seeds_have_no_part(question):
    found = runs(0.01, 0.8992, CHOOSING) + runs(0.03, 0.885, CHOOSING) + runs(0.1, 0.70, CHOOSING)
    found += runs(0.03, 0.8992, range(3))
    score = choose.score(question, "fedagg", Shelf(found))
    by_reading = score.by_reading
    assert by_reading["eta_s=0.01"] == pytest.approx(0.05, abs=0.01)  # mean 89.97 against 89.92, margin 1
    assert by_reading["eta_s=0.03"] == pytest.approx(1.37, abs=0.01)
    assert by_reading["eta_s=0.1"] == choose.FAR
    assert choose.nearest(score) == "eta_s=0.01"


@pytest.mark.parametrize(("ends", "best"), [((0.5, 0.505), "eta_s=0.01"), ((0.5, 0.52), "eta_s=0.03")])
def test_of_readings_that_are_equally_far_off_those_count_that_end_highest(question, ends, best):
    found = runs(0.01, ends[0], CHOOSING) + runs(0.03, ends[1], CHOOSING) + runs(0.1, 0.30, CHOOSING)
    score = choose.score(question, "fedagg", Shelf(found))
    assert {*score.by_reading.values()} == {choose.FAR}
    assert choose.nearest(score) == best


def test_nothing_decides_unless_every_reading_was_run(question):
    found = runs(0.01, 0.8992, CHOOSING) + runs(0.03, 0.885, CHOOSING)
    assert choose.nearest(choose.score(question, "fedagg", Shelf(found))) is None


def table4(method, point, seeds, reached, final, scale="cpu"):
    """Runs of fed2a/readings of 300 rounds that reach the target in a round and end at an accuracy."""
    return [
        made.result(
            *("fed2a/readings", method, "cifar10", "R=300"),
            **{"seed": seed, "point": point, "scale": scale, "target": 0.5},
            accuracy=[*made.crossing(reached, 299, 0.5), final],
        )
        for seed in seeds
    ]


@pytest.fixture
def mixing(monkeypatch):
    """FedAsync's alpha is open, and nothing else. Table 4: FedAvg 97 rounds and 38.08 %, FedAsync 132 and 38.27 %."""
    monkeypatch.setattr(readings, "questions", lambda paper: (fed2a.MIXING,) if paper == "fed2a" else ())
    readings.open_for.cache_clear()
    yield fed2a.MIXING
    readings.open_for.cache_clear()


def test_at_scale_cpu_a_reading_is_as_far_off_as_its_distance_to_fedavg_is(mixing):
    fedavg = table4("fedavg", 0, CHOOSING, 100, 0.80)
    near, far = table4("fedasync", 0, CHOOSING, 130, 0.81), table4("fedasync", 1, CHOOSING, 150, 0.81)
    found = choose.score(mixing, "fed2a", Shelf(fedavg + near + far))
    printed = 132 / 97
    accuracy = abs(1.0 - (38.27 - 38.08))
    assert found.scale == "cpu" and found.claims == 3  # rounds, bytes (which follow from them), the last accuracy
    for name, ratio in (("alpha = 0.6", 1.3), ("alpha = 1", 1.5)):
        rounds = abs(ratio - printed) / (0.1 * printed)
        assert found.by_reading[name] == pytest.approx((2 * rounds + accuracy) / 3, abs=0.02)


INDEX, LINKS, _ = (reading.name for reading in fedlc.LOCALCOL.readings)


@pytest.fixture
def limits(monkeypatch):
    """Whom FedLC's LOCALCOL chooses is open, and nothing else. Sec. 5.2.1: FedLC 1843 s to 0.6, CE-AFL 3654 s."""
    few = replace(fedlc.LOCALCOL, readings=fedlc.LOCALCOL.readings[:2], chosen=INDEX)
    monkeypatch.setattr(readings, "questions", lambda paper: (few,) if paper == "fedlc" else ())
    readings.open_for.cache_clear()
    yield few
    readings.open_for.cache_clear()


def within(method, reached, order="", target=0.45):
    """Runs of fedlc/readings at scale=cpu, whose target is not the paper's: two virtual seconds a round."""
    label = "fedlc/readings", method, "cifar10", "degree-1;simulation"
    runs_there = next(p.sweep for p in every() if p.sweep.name == label[0]).grids[label[1:]]
    point = next(k for k, run in enumerate(runs_there) if order in " ".join(run.overrides))
    more = {"point": point, "scale": "cpu", "target": target, "differs": {"target": (0.6, target)}}
    curve = made.crossing(reached, 300, target)
    return [made.result(*label, seed=seed, accuracy=curve, **more) for seed in CHOOSING]


def test_at_scale_cpu_seconds_are_ratios_to_the_printed_rivals_to_the_target_of_that_scale(limits):
    found = within("ce_afl", 200) + within("fedlc", 100, "links") + within("fedlc", 140)
    found = choose.score(limits, "fedlc", Shelf(found))
    assert found.scale == "cpu" and found.claims == 1
    printed = 1843 / 3654
    assert found.by_reading[LINKS] == pytest.approx((printed - 100 / 200) / (0.1 * printed), abs=0.01)
    assert found.by_reading[INDEX] == pytest.approx((140 / 200 - printed) / (0.1 * printed), abs=0.01)


def test_what_is_open_of_every_run_is_decided_by_the_rivals_alone(monkeypatch):
    only = replace(fedlc.DISPATCH, readings=fedlc.DISPATCH.readings[:2])
    monkeypatch.setattr(readings, "questions", lambda paper: (only,) if paper == "fedlc" else ())
    readings.open_for.cache_clear()

    def ending(method, last, unit):
        label = "fedlc/readings", method, "cifar10", "degree-1;simulation"
        there = next(p.sweep for p in every() if p.sweep.name == label[0]).grids[label[1:]]
        point = next(k for k, run in enumerate(there) if ("local_unit=step" in run.overrides) == (unit == "step"))
        more = {"point": point, "scale": "cpu", "target": 0.9, "differs": {"target": (0.6, 0.9)}}
        return [made.result(*label, seed=seed, accuracy=[0.1, last], **more) for seed in CHOOSING]

    found = ending("ce_afl", 0.4, "epoch") + ending("ce_afl", 0.2, "step")
    found += ending("fedlc", 0.1, "epoch") + ending("fedlc", 0.8, "step")
    score = choose.score(only, "fedlc", Shelf(found))
    assert {*score.by_reading.values()} == {0.0} and score.ends_at["a mini-batch"] == pytest.approx(0.2)
    assert choose.nearest(score) == "a pass"
    readings.open_for.cache_clear()


def test_at_scale_cpu_a_target_that_only_the_rival_reaches_is_far_off(limits):
    found = within("ce_afl", 200) + within("fedlc", None, "links") + within("fedlc", 140)
    score = choose.score(limits, "fedlc", Shelf(found))
    assert score.by_reading[LINKS] == choose.FAR and choose.nearest(score) == INDEX


def test_at_scale_cpu_a_target_that_neither_reaches_is_far_off_and_decides_nothing_before_all_are_run(limits):
    found = within("ce_afl", None) + within("fedlc", None, "links") + within("fedlc", None)
    assert choose.score(limits, "fedlc", Shelf(found)).by_reading == {LINKS: choose.FAR, INDEX: choose.FAR}
    assert choose.nearest(choose.score(limits, "fedlc", Shelf(found[:-1]))) is None


def test_runs_at_the_papers_scale_decide_where_there_are_any(mixing):
    small = table4("fedavg", 0, CHOOSING, 100, 0.8) + table4("fedasync", 0, CHOOSING, 110, 0.79)
    whole = [run for k in (0, 1) for run in table4("fedasync", k, CHOOSING, 132 - 90 * k, 0.38, scale="paper")]
    found = choose.score(mixing, "fed2a", Shelf(small + whole))
    assert found.scale == "paper" and choose.nearest(found) == "alpha = 0.6"


def test_what_was_decided_at_scale_cpu_reproduces_nothing(question, monkeypatch):
    monkeypatch.setattr(readings, "questions", lambda paper: (replace(question, scale="cpu"),))
    readings.open_for.cache_clear()
    v = judged(runs(0.03, 0.8992, range(3)))
    assert v.verdict == "not confirmed" and v.why.startswith("it agrees, but no sweep at the paper's scale has decided")


def test_what_is_chosen_is_what_the_committed_runs_choose():
    choose.check()


def test_a_result_finds_its_run_again_when_the_plan_has_changed(tmp_path):
    [path] = [p for p in sorted(results.FOLDER.glob("*.json")) if p.stem == results.committed()[0].name]
    shutil.copy(path, tmp_path)
    old = results.read(tmp_path / path.name)
    (tmp_path / path.name).unlink()
    results.write(replace(old, plan=(replace(old.plan[0], setting="a table of yesterday"),)), tmp_path)
    changed, lost = replan(tmp_path)
    assert [result.plan for result in changed] == [old.plan] and lost == []
    assert json.loads((tmp_path / path.name).read_text())["plan"][0]["setting"] == old.plan[0].setting
    assert replan(tmp_path) == ([], [])


def test_a_result_of_no_plan_is_named_and_dropped_where_that_is_asked_for(tmp_path):
    kept, other = results.committed()[:2]
    results.write(kept, tmp_path)
    gone = {**other.config, "rounds": 1234}
    results.write(replace(other, name=results.name_of(gone), config=gone, group=None), tmp_path)
    text = tmp_path / f"{results.name_of(gone)}.json"
    assert [len(found) for found in replan(tmp_path)] == [0, 1] and text.exists()
    assert [len(found) for found in replan(tmp_path, drop=True)] == [0, 1]
    assert results.load(tmp_path) == (kept,) and replan(tmp_path) == ([], [])


def test_a_command_that_went_by_a_default_of_yesterday_says_what_it_was(tmp_path):
    old = next(
        run for run in results.committed() if run.config["algo"]["name"] == "fedlga" and run.plan[0].differs == {}
    )
    results.write(replace(old, command=f"python bench.py algo=fedlga dataset=fmnist seed={old.seed}"), tmp_path)
    [today], _ = replan(tmp_path)
    assert results.name_of(compose.config(shlex.split(today.command)[2:])) == old.name
    assert replan(tmp_path) == ([], [])


def default_runs():
    """For every question, a planned run of each algorithm that it concerns, without the words of any reading."""
    for paper in papers():
        keys = {key for question in readings.questions(paper) for key in question.keys}
        for question in readings.questions(paper):
            found = {}
            for place in every():
                if place.paper == paper and place.counts and question.covers(place.run.method, place.run.dataset):
                    words = [word for word in place.run.overrides if word.partition("=")[0] not in keys]
                    found.setdefault(next(word for word in words if word.startswith("algo=")), words)
            for place, (algo, words) in enumerate(found.items()):
                slow = [pytest.mark.slow] if place else []
                yield pytest.param(question, words, id=f"{question.about}, {algo}", marks=slow)


@pytest.mark.parametrize(("question", "words"), default_runs())
def test_the_reading_that_counts_is_what_a_method_runs_by_default(question, words):
    assert compose.config(words) == compose.config([*words, *question.words.split()])

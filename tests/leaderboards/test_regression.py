"""python -m leaderboards check --data: short runs on real data against stored means."""

from __future__ import annotations

import math

import pytest

from bench.errors import UserError
from leaderboards import golden, regression
from leaderboards.golden import RunFailed
from leaderboards.regression import CLAIMS, Short, check, compare, read, short

A, B = CLAIMS[:2]


def test_what_is_stored_covers_the_claims_with_three_seeds_and_honest_intervals():
    stored = read(golden.folder() / regression.FILE)
    assert tuple(stored) == CLAIMS
    for found in stored.values():
        n = len(found.accuracy)
        assert n == 3
        mean = sum(found.accuracy) / n
        deviation = math.sqrt(sum((a - mean) ** 2 for a in found.accuracy) / (n - 1))
        assert found.mean == pytest.approx(mean, abs=2e-6)
        assert found.half == pytest.approx(4.302653 * deviation / math.sqrt(n), abs=2e-6)


def test_accuracy_is_that_of_the_last_rounds():
    curve = [0.1] * 30 + [0.5, 0.7] * 5
    found = short([curve, curve])
    assert found.accuracy == (0.6, 0.6) and found.mean == 0.6 and found.half == 0


def test_a_mean_that_moves_by_more_than_half_a_point_is_a_change():
    old = Short((0.5, 0.6, 0.7), 0.6, 0.25)
    assert compare({A: old}, {A: Short((), 0.6049, 0.2)}) == []
    [change] = compare({A: old}, {A: Short((), 0.594, 0.2)})
    assert (change.name, change.golden, change.difference) == (A, "60.00 ± 25.00", "-0.60")


def test_a_mean_outside_a_narrow_interval_is_a_change():
    assert compare({A: Short((), 0.6, 0.001)}, {A: Short((), 0.602, 0.001)})


def test_an_ordering_that_turns_is_a_change_even_within_the_tolerance():
    old = {A: Short((), 0.600, 0.1), B: Short((), 0.594, 0.1)}
    new = {A: Short((), 0.596, 0.1), B: Short((), 0.597, 0.1)}
    [change] = compare(old, new)
    assert change.name == f"{A} minus {B}" and (change.golden, change.now) == ("+0.60", "-0.10")


def test_new_and_lost_claims_are_changes():
    one = Short((), 0.6, 0.1)
    assert [change.now for change in compare({A: one}, {})] == ["none"]
    assert [change.golden for change in compare({}, {A: one})] == ["none"]


def test_the_verb_fails_on_a_change_and_update_stores_it(tmp_path, monkeypatch, capsys):
    (tmp_path / "tests" / "golden").mkdir(parents=True)
    (tmp_path / "bench.py").touch()
    monkeypatch.setattr(regression, "run_now", lambda root: {A: Short((0.5, 0.6), 0.55, 0.01)})
    with pytest.raises(UserError, match="check --data --update"):
        check(False, tmp_path)
    assert check(True, tmp_path) == 0
    assert check(False, tmp_path) == 0
    assert "Nothing moved." in capsys.readouterr().out
    monkeypatch.setattr(regression, "run_now", lambda root: {A: Short((0.5, 0.7), 0.6, 0.01)})
    assert check(False, tmp_path) == 1
    assert "+5.00" in capsys.readouterr().out

    def fail(root):
        raise RunFailed("no data")

    monkeypatch.setattr(regression, "run_now", fail)
    assert check(False, tmp_path) == 1
    assert "check failed: no data" in capsys.readouterr().out

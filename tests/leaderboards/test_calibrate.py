"""Which point scale=cpu takes: by the rule, whatever its name."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from bench.prepare import compose
from leaderboards import calibrate, results
from leaderboards.calibrate import Tried, taken
from leaderboards.measure import Shelf
from leaderboards.papers import LedgerError, papers
from sweeps.scaled import Scaled, scaled

ONE = Scaled("gtsrb", target=0.784, share=0.9, printed=0.80, points={"a": "lr=1", "b": "lr=2", "c": "lr=3"})


def at(last: float, level: float) -> Tried:
    return Tried(last * level, last, 0.02 / math.sqrt(2) * last)  # ratios jump by 0.02


@pytest.mark.parametrize(
    ("a", "b", "c", "best"),
    [
        (at(0.70, 0.98), at(0.75, 0.94), at(0.75, 1.02), "a"),  # the nearest shape
        (at(0.70, 0.98), at(0.75, 0.961), at(0.78, 0.959), "b"),  # as near as can be told, and higher
        (at(0.60, 0.98), at(0.65, 0.90), None, "b"),  # a is below 0.8 of what is printed, c diverged
        (at(0.30, 0.98), at(0.35, 0.90), None, "a"),  # all are below it
    ],
)
def test_the_rule(a: Tried, b: Tried, c: Tried | None, best: str) -> None:
    assert taken(ONE, {"a": a, "b": b, "c": c}) == best


def test_where_no_shape_is_printed_the_highest_wins() -> None:
    points = {"a": at(0.70, 0.98), "b": at(0.75, 0.5), "c": None}
    assert taken(replace(ONE, target=None), points) == "b" == taken(replace(ONE, printed=None, target=None), points)


def test_a_point_whose_tenfold_rate_diverges_or_was_not_run_is_left_out() -> None:
    one = replace(
        ONE, tenfold=True, points={"a": "lr=0.03 momentum=0", "b": "lr=0.3 momentum=0", "c": "lr=3 momentum=0"}
    )
    points = {"a": at(0.70, 0.98), "b": at(0.75, 0.98), "c": None}
    assert taken(one, points) == "a"
    assert taken(one, points | {"b": None}) is None
    assert taken(one, points | {"c": at(0.40, 0.98)}) == "b"


def test_ten_times_the_rate_is_a_point_that_differs_in_nothing_else() -> None:
    found = {one.dataset: {name: one.at_tenfold(name) for name in one.points} for one in scaled("fedlc")}
    assert found["cifar10"]["rate 0.03"] == "rate 0.3"
    assert found["cifar10"]["rate 0.1, not normalised"] is None
    assert found["emnist"]["rate 0.01, momentum"] == "rate 0.1, momentum"


def test_nothing_is_taken_before_every_point_was_run() -> None:
    assert taken(ONE, {"a": at(0.7, 0.98), "b": None}) is None


@pytest.mark.parametrize("paper", papers())
def test_every_point_sets_the_same_keys_and_the_one_taken_is_what_scale_cpu_is(paper: str) -> None:
    for one in scaled(paper):
        assert len(one.points) <= 12
        keys = [[word.partition("=")[0] for word in words.split()] for words in one.points.values()]
        assert all(some == keys[0] for some in keys)
        if one.chosen is not None:
            words = ["algo=fedavg", f"dataset={one.dataset}", f"protocol={paper}", "scale=cpu"]
            config = compose.config(words)
            assert config == compose.config([*words, *one.words.split()])
            assert config["target"] == calibrate.target(one, paper, Shelf(results.committed()))


def test_what_is_set_is_what_the_committed_runs_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    calibrate.check()
    one = scaled("fed2a")[0]
    other = next(name for name in one.points if name != one.chosen)
    monkeypatch.setattr(calibrate, "scaled", lambda paper: (replace(one, chosen=other),) * (paper == "fed2a"))
    with pytest.raises(LedgerError, match="the committed runs choose"):
        calibrate.check()


def test_an_accuracy_is_the_mean_of_what_was_evaluated_in_the_window() -> None:
    rows: list[float | None] = [None if k % 2 else k / 100 for k in range(100)]
    found = calibrate._read(SimpleNamespace(rows={"test_accuracy": rows}), 0.5)
    assert found.at_share == pytest.approx((0.46 + 0.48) / 2)  # rounds 46 to 50
    assert found.last == pytest.approx((0.96 + 0.98) / 2)


def test_a_jump_is_what_single_evaluations_are_off_a_line_at_the_end() -> None:
    rows = [0.5] * 75 + [0.5 + k / 1000 + (-1) ** k * 0.02 for k in range(25)]
    found = calibrate._read(SimpleNamespace(rows={"test_accuracy": rows}), 0.5)
    assert found.jump == pytest.approx(0.02, rel=0.05)
    assert calibrate.blur({"a": found}) == pytest.approx(math.sqrt(2) * found.jump / found.last)

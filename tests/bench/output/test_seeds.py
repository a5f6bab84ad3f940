import math

import pytest

from bench.output.result import RunResult
from bench.output.seeds import SeedNumbers, SeedRuns, target_text


def result(final, **more):
    numbers = {"best": final, "rounds_to_target": None, "target": 0.6, "rounds": 9}
    return RunResult(id="r", final=final, **{**numbers, **more})


def test_mean_and_interval_of_three_seeds_by_hand():
    """The deviation of 1, 2, 6 is sqrt(7); t(0.975, 2) = 4.302653."""
    numbers = SeedNumbers({0: 1.0, 2: 6.0, 1: 2.0})
    assert numbers.values == [1.0, 2.0, 6.0]
    assert numbers.mean == 3.0
    assert numbers.half == pytest.approx(4.302653 * math.sqrt(7 / 3))
    assert numbers.text(".1f") == "3.0 ± 6.6"
    assert numbers.times(10).text(".0f", half_form=".2f") == "30 ± 65.72"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "never"),
        ({0: 2.0}, "2.0"),
        ({0: math.inf}, "never"),
        ({0: math.inf, 1: 2.0}, "never (1 of 2)"),
        ({0: math.inf, 1: math.inf}, "never (2 of 2)"),
    ],
)
def test_a_mean_over_the_seeds_that_got_there_would_flatter(values, text):
    assert SeedNumbers(values).text(".1f") == text


def test_the_known_ones_apart():
    numbers = SeedNumbers({0: math.inf, 1: 2.0})
    assert (numbers.missed, numbers.known.text(".1f"), numbers.half) == (1, "2.0", None)
    assert math.isnan(SeedNumbers({0: math.inf}).known.mean)


def test_paired_differences_take_the_common_seeds_and_drop_what_says_nothing():
    a, b = SeedNumbers({0: 5.0, 1: math.inf, 2: math.inf, 7: 1.0}), SeedNumbers({0: 3.0, 1: math.inf, 2: 4.0})
    assert a.paired(b, lambda x, y: x - y).by_seed == {0: 2.0, 2: math.inf}


def test_runs_give_numbers_and_count_those_that_diverged():
    runs = SeedRuns("fedavg", {1: result(None, diverged={"round": 3}), 0: result(0.5, rounds_to_target=4)})
    assert len(runs) == 2 and runs.diverged == 1
    assert [run.final for run in runs.runs] == [0.5, None]
    assert runs.numbers("final_accuracy").by_seed == {0: 0.5, 1: math.inf}
    assert runs.each(lambda run: run.rounds).values == [9.0, 9.0]
    assert target_text([runs]) == "60 %"
    assert target_text([runs, SeedRuns("fedavg", {0: result(0.5, target=0.7)})]) == "target"

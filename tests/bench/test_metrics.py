import math

import pytest

from bench.metrics import mean_interval, rounds_to_target, upload_cost

SIZES = {"fmnist": (206_592, 3_413_770), "cifar10": (829_184, 9_574_154), "gtsrb": (209_792, 2_403_499)}


def test_rounds_to_target_is_the_first_round_counted_from_one():
    assert rounds_to_target([0.5, 0.9, 0.3, 0.95], 0.9) == 2
    assert rounds_to_target([0.9], 0.9) == 1


def test_rounds_to_target_passes_over_rounds_without_evaluation():
    assert rounds_to_target([math.nan, math.nan, 0.91], 0.9) == 3


def test_a_missed_target_is_never():
    assert rounds_to_target([0.1, math.nan, 0.89], 0.9) is None
    assert rounds_to_target([], 0.9) is None


@pytest.mark.parametrize(
    ("dataset", "rounds", "D", "printed"),
    [
        ("fmnist", 94, 10, "1.27"),  # FedAvg
        ("gtsrb", 265, 10, "2.58"),
        ("cifar10", 150, 1, "1.32"),  # PLU(300, 10, D)
        ("gtsrb", 269, 2, "0.76"),
        ("fmnist", 107, 5, "0.81"),
        ("cifar10", 86, 8, "2.76"),
        ("gtsrb", 209, 7, "1.50"),
    ],
)
def test_upload_cost_gives_the_cells_of_fed2a_table_4(dataset, rounds, D, printed):
    assert f"{upload_cost(rounds, *SIZES[dataset], P=10, D=D):.2f}" == printed


@pytest.mark.parametrize(
    ("dataset", "rounds", "D", "printed"), [("fmnist", 168, 1, 0.44), ("gtsrb", 285, 6, 1.78), ("gtsrb", 228, 9, 2.03)]
)
def test_the_three_cells_that_differ_differ_by_less_than_a_hundredth(dataset, rounds, D, printed):
    difference = abs(upload_cost(rounds, *SIZES[dataset], P=10, D=D) - printed)
    assert 0.005 < difference < 0.0083


def test_upload_cost_sends_deep_layers_in_the_first_period_and_at_each_periods_end():
    # P = 3, D = 1: deep in rounds 0, 1, 2 and then in 5, 8
    assert upload_cost(9, 0, 2**28, P=3, D=1) == 5.0
    assert upload_cost(5, 0, 2**28, P=3, D=1) == 3.0
    assert upload_cost(7, 2**28, 2**28, P=4, D=4) == 14.0
    assert upload_cost(0, 1, 1, P=4, D=4) == 0.0


def test_mean_interval_is_students():
    mean, half = mean_interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)  # t(0.975; 2 degrees of freedom) = 4.302653


def test_one_value_has_no_interval():
    assert mean_interval([0.7]) == (0.7, None)

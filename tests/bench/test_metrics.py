import math

import pytest

from bench.metrics import ACCURACY, Metric, mean_interval, upload_cost

RMSE = Metric("rmse", "RMSE", higher=False)
SIZES = {"fmnist": (206_592, 3_413_770), "cifar10": (829_184, 9_574_154), "gtsrb": (209_792, 2_403_499)}


@pytest.mark.parametrize(
    ("metric", "values", "target", "expected"),
    [
        (ACCURACY, [0.5, 0.9, 0.3, 0.95], 0.9, 2),
        (ACCURACY, [0.9], 0.9, 1),
        (ACCURACY, [math.nan, math.nan, 0.91], 0.9, 3),
        (ACCURACY, [0.1, math.nan, 0.89], 0.9, None),
        (ACCURACY, [], 0.9, None),
        (RMSE, [70.0, 55.0, 60.0, 50.0], 56, 2),
        (RMSE, [math.nan, 56.0], 56, 2),
        (RMSE, [57.0, math.nan], 56, None),
    ],
)
def test_the_target_is_reached_in_the_first_round_that_is_as_good_counted_from_one(metric, values, target, expected):
    assert metric.rounds_to(target, values) == expected


def test_the_better_of_two_numbers_is_the_metrics_own():
    values = [math.nan, 2.0, 1.0, 3.0]
    assert (ACCURACY.best(values), RMSE.best(values)) == (3.0, 1.0)
    assert ACCURACY.best([math.nan]) is RMSE.best([]) is None
    assert ACCURACY.merit(0.9) > ACCURACY.merit(0.8) and RMSE.merit(50) > RMSE.merit(60)


def test_how_a_number_is_written():
    assert [write(0.93889) for write in (ACCURACY.text, ACCURACY.roughly, ACCURACY.named)] == [
        "93.89 %",
        "93.9 %",
        "93.9 %",
    ]
    assert [write(54.321) for write in (RMSE.text, RMSE.roughly, RMSE.named)] == ["54.321", "54.32", "RMSE 54.32"]
    assert (ACCURACY.goal(0.9), ACCURACY.heading, ACCURACY.axis) == ("90 %", "accuracy %", "test accuracy (%)")
    assert (RMSE.goal(56.0), RMSE.heading, RMSE.axis) == ("56", "RMSE", "test RMSE")


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

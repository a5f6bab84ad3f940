"""Runs at different paces, compared at one moment."""

import math
from dataclasses import replace

import pytest
from finished_runs import make

from bench.metrics import GB, MB, Metric
from bench.output.paces import measured_by, moment_text
from bench.output.tables import leaderboard

HASTE = 4  # a round of the synchronous method takes as long as so many of the other


def hasty(**changes):
    """Four rounds in as many seconds as the others' first, half the bytes a round."""
    run = make("fedasync", **changes)
    for row in run.rows:
        row["virtual_seconds"] /= HASTE
        row["bytes_up"] /= 2
    return run


def moments(*runs):
    return [line for line in leaderboard(runs).splitlines() if line.startswith("at ")]


def test_accuracy_at_a_moment_is_the_last_that_was_measured_by_then():
    run = make(accuracy=0.8)  # 20, 40, 60, 80 % at 2, 4, 6, 8 s
    run.rows[1]["test_accuracy"] = math.nan
    found = [measured_by(run, "virtual_seconds", moment) for moment in (1.9, 2.0, 3.9, 4.0, 6.0, 100.0)]
    assert found == [None, *map(pytest.approx, (0.2, 0.2, 0.2, 0.6, 0.8))]
    assert measured_by(run, "bytes_up", 10) == pytest.approx(0.2)


def test_a_table_of_several_schedules_says_who_leads_at_the_last_moment_that_all_reached():
    slow, fast = make(rounds=4, accuracy=0.8), hasty(rounds=4, accuracy=0.6)
    assert moments(slow, fast) == [  # 2 s are one round of the slow one and all four of the fast
        "at 2.0 virtual s: fedasync 60.0 %, fedavg 20.0 %",
        "at 0.0 kB sent up: fedasync 60.0 %, fedavg 40.0 %",
    ]


def test_where_lower_is_better_the_lowest_leads():
    rmse = Metric("rmse", "RMSE", higher=False)
    runs = [make(rounds=4, accuracy=80.0), hasty(rounds=4, accuracy=60.0)]
    for run in runs:
        for row in run.rows:
            row["test_rmse"] = 100 - row.pop("test_accuracy")  # 80, 60, 40, 20 and 85, 70, 55, 40
    runs = [replace(run, result=replace(run.result, metric=rmse)) for run in runs]
    assert moments(*runs)[0] == "at 2.0 virtual s: fedasync 40.00, fedavg 80.00"
    table = leaderboard(
        [replace(run, result=replace(run.result, final=n)) for run, n in zip(runs, (20, 40), strict=True)]
    )
    assert table.index("fedavg ") < table.index("fedasync ") and "RMSE" in table and "accuracy" not in table


def test_a_seed_that_ends_early_sets_the_moment_and_numbers_are_means_over_seeds():
    slow = [make(seed=seed, accuracy=value) for seed, value in enumerate((0.4, 0.8))]
    short = hasty(seed=1, rounds=4, accuracy=0.4)
    del short.rows[2:]  # at 1 s
    for run in slow:
        for row in run.rows:
            row["virtual_seconds"] /= 2
    assert moments(*slow, hasty(accuracy=0.8), short)[0] == "at 1.0 virtual s: fedasync 30.0 %, fedavg 15.0 %"


def test_who_has_measured_nothing_by_then_is_last_and_says_so():
    slow = [make(seed=seed) for seed in (0, 1)]
    for row in slow[1].rows:
        row["virtual_seconds"] += 1
    assert moments(*slow, hasty())[0] == "at 2.0 virtual s: fedasync 90.0 %, fedavg none yet (1 of 2)"
    assert moments(slow[1], hasty())[0] == "at 2.0 virtual s: fedasync 90.0 %, fedavg none yet"


def test_bytes_are_compared_among_those_that_send_any():
    silent = make("local_only", rounds=4, accuracy=0.7)
    for row in silent.rows:
        row["bytes_up"] = 0
    assert moments(make(rounds=4, accuracy=0.8), hasty(rounds=4, accuracy=0.6), silent) == [
        "at 2.0 virtual s: fedasync 60.0 %, fedavg 20.0 %, local_only 17.5 %",
        "at 0.0 kB sent up: fedasync 60.0 %, fedavg 40.0 %",
    ]


def test_a_diverged_run_does_not_set_the_moment():
    lost = make("fedprox")
    lost = replace(lost, result=replace(lost.result, final=None))
    del lost.rows[1:]
    assert moments(make(), hasty(), lost) == moments(make(), hasty())


def test_nothing_is_added_where_a_round_takes_all_equally_long():
    other = make("scaffold")
    for row in other.rows:
        row["bytes_up"] *= 2
    assert moments(make(), other) == moments(make(), make("fedprox", rounds=2)) == moments(hasty()) == []


def test_every_table_has_its_own_moment_and_long_lines_are_broken_between_methods():
    runs = [make(), hasty(), make(protocol="fedlga"), hasty(protocol="fedlga", rounds=2)]
    assert [line.partition(":")[0] for line in moments(*runs)[::2]] == ["at 1.0 virtual s", "at 2.0 virtual s"]
    many = [make("fedprox", algo_fields={"mu": float(mu)}) for mu in range(20)]
    lines = leaderboard([*many, hasty()]).splitlines()
    begin = next(k for k, line in enumerate(lines) if line.startswith("at "))
    end = next(k for k in range(begin + 1, len(lines)) if not lines[k].startswith("  "))
    assert end - begin > 2 and all(len(line) <= 110 for line in lines[begin:end])
    assert all(line.endswith(("%,", "%")) for line in lines[begin:end])


def test_moments_in_words():
    found = [moment_text("virtual_seconds", 8.63), moment_text("virtual_seconds", 1575.2)]
    found += [moment_text("bytes_up", size) for size in (7000, 193.7 * MB, 1.21 * GB)]
    assert found == ["8.6 virtual s", "1,575 virtual s", "6.8 kB sent up", "194 MB sent up", "1.2 GB sent up"]

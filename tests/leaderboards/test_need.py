"""How many seeds a cell needs: by the spread over calibration seeds, and by nothing that was seen later."""

from __future__ import annotations

import made
import pytest
from scipy.stats import t as student

from leaderboards import need, plans, seeds
from leaderboards.measure import Shelf, judged
from leaderboards.papers import LedgerError
from sweeps import readings
from sweeps.readings import CHOOSING

SETTING = "rho=0.5;tau_max=0.8E;E=5"  # FedAvg: 116 rounds are printed, the margin is 11.6
TABLE = "fedlga/calibration"


@pytest.fixture(autouse=True)
def nothing_is_open(monkeypatch):
    monkeypatch.setattr(readings, "questions", lambda paper: ())
    readings.open_for.cache_clear()
    yield
    readings.open_for.cache_clear()


def runs(rounds, chosen=CHOOSING, wall_seconds=90.0, sweep=TABLE):
    return [
        made.result(
            *(sweep, "fedavg", "fmnist", SETTING),
            **{"seed": seed, "accuracy": made.crossing(n), "wall_seconds": wall_seconds},
        )
        for seed, n in zip(chosen, rounds, strict=True)
    ]


def count(found):
    [one] = [one for cell, one in need.needed(Shelf(found)).items() if cell.method == "fedavg"]
    return one


@pytest.mark.parametrize("deviation", [1, 3, 5, 8, 12, 40])
def test_half_the_90_percent_interval_is_half_a_margin(deviation):
    wanted = next(n for n in range(3, 10_000) if student.ppf(0.95, n - 1) * deviation / n**0.5 <= 11.6 / 2)
    one = count(runs((116 - deviation, 116, 116 + deviation)))
    assert one.spread == pytest.approx(deviation / 11.6)
    assert one.seeds == min(20, wanted)


def test_short_runs_have_five_at_the_least():
    assert count(runs((115, 116, 117), wall_seconds=59.0)).seeds == 5
    assert count(runs((115, 116, 117), wall_seconds=61.0)).seeds == 3


def test_a_target_that_only_some_seeds_miss_takes_the_most_and_one_that_all_miss_the_least():
    assert count(runs((116, 117, None))).seeds == 20
    assert count(runs((None, None, None))).seeds == 3


def test_judged_seeds_have_no_part():
    calm, wild = runs((115, 116, 117)), runs((60, 116, 190), chosen=(0, 1, 2), sweep="fedlga/table6")
    assert count(calm + wild) == count(calm)
    assert need.needed(Shelf(wild)) == {}


def test_a_number_of_seeds_that_the_runs_do_not_ask_for_is_refused(monkeypatch):
    cell = count(runs((115, 116, 117))).cell
    monkeypatch.setattr(need.results, "committed", lambda: runs((115, 116, 117)))
    for fixed, refused in ((3, False), (4, True)):
        monkeypatch.setattr(seeds, "planned", lambda fixed=fixed: {cell: fixed})
        if refused:
            with pytest.raises(LedgerError, match=r"seeds\.csv has 4 seeds for fedlga fedavg .* it is 3"):
                need.check()
        else:
            need.check()


def test_what_is_fixed_is_written_once_and_what_is_missing_has_a_command(monkeypatch, tmp_path):
    monkeypatch.setattr(need.results, "committed", lambda: runs((104, 116, 128), wall_seconds=5.0))
    monkeypatch.setattr(seeds, "FILE", tmp_path / "seeds.csv")
    seeds.FILE.write_text("paper,method,dataset,setting,seeds\nfedlga,other,fmnist,x,7\n")
    seeds.planned.cache_clear()
    try:
        assert need.update() == 1
        seeds.planned.cache_clear()
        fixed = {cell.method: number for cell, number in seeds.planned().items()}
        assert fixed == {"other": 7, "fedavg": 14}
        assert need.update() == 0
        text = need.overview()
    finally:
        seeds.planned.cache_clear()
    assert f"seed={','.join(map(str, range(14)))}" in text
    assert "python -m sweeps fedlga/table" in text and "method=fedavg dataset=fmnist" in text


def test_seconds_have_three_seeds_whatever_the_cell_needs(monkeypatch):
    wanted = plans.cell("fedlga", "fedprox", "fmnist", "rho=0.5;tau_max=E-1;E=5")
    monkeypatch.setattr(seeds, "planned", lambda: {wanted: 20})
    assert seeds.judged_seeds(wanted) == seeds.judged_seeds(wanted, "rounds_to_target") == range(20)
    assert seeds.judged_seeds(wanted, "seconds_per_round") == range(3)
    view = judged(Shelf([]))
    assert [seed for seed in range(25) if view.seeds(wanted, "seconds_to_target", seed)] == [0, 1, 2]

"""Every slip that docs/ledger.md lists, with the numbers it rests on."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.learning.services import MANY, PER_CLASS, PER_CLASS_OF_MANY
from leaderboards.audit import markdown
from leaderboards.papers import fed2a, fedagg, fedlc, fedlga

FOUR = ("| fedlga |", "| fed2a |", "| fedlc |", "| fedagg |")
DOCS = Path(__file__).parents[2] / "docs" / "ledger.md"


def test_docs_show_the_computed_table():
    """`python -m leaderboards audit` prints what has to stand there."""
    shown = DOCS.read_text(encoding="utf-8").splitlines()
    rows = [line for line in markdown().splitlines() if line.startswith(FOUR)]
    assert [row for row in rows if row not in shown] == []
    assert len(rows) == 29


def test_fedlga_is_third_only_among_the_methods_of_its_earlier_version():
    nine = {"fedlga", "fedavg", "fedprox", "fednova", "scaffold", "feddyn", "fedcm", "mimelite", "fedsam"}
    assert fedlga.ranks(nine) == [4, 3, 5]
    assert fedlga.ranks(fedlga.EARLIER) == [3, 3, 3]


def test_fedlgas_totals_are_products_but_for_one():
    exact, odd = fedlga.products()
    assert exact == 12
    assert odd == [("fedcm", "cifar100")]
    assert round(3108.6 / 269, 1) == 11.6  # printed: 11.5


def test_fedlga_without_stragglers_is_fedavg():
    assert fedlga.lost(1) == 0
    assert fedlga.lost(4) == pytest.approx(0.5 * (0 + 1 + 2 + 3) / 4 / 5)
    assert fedlga.rounds("0.8E")["fedavg", "fmnist"] == 4 * fedlga.rounds("0.2E")["fedlga", "fmnist"]


def test_fedlgas_tuned_numbers_are_the_untuned_ones():
    assert fedlga.reprinted() == (54, 54)


def test_fed2as_formula_of_its_saving_is_wrong():
    for D in range(1, 11):
        assert fed2a.saved(D) == pytest.approx((300 / 10 - 1) * (10 - D))
    assert fed2a.printed_saving(8) == 238
    assert fed2a.printed_saving(10) == 300


def test_fed2as_formula_of_its_pairs_is_wrong():
    """Counted on the matrices that our own code takes the distances from."""
    for data, m, printed in (("fmnist", 50, 1200), ("cifar10", 50, 1200), ("gtsrb", 86, 3612)):
        assert fed2a.PER_CLASS[data] == (PER_CLASS if fed2a.IMAGES[data][1] <= MANY else PER_CLASS_OF_MANY)
        assert (fed2a.stimuli(data), fed2a.printed_pairs(m)) == (m, printed)
        assert fed2a.pairs(data) == sum(i < j for i in range(m) for j in range(m))
    assert (fed2a.pairs("fmnist"), fed2a.pairs("gtsrb")) == (1225, 3655)


def test_fed2as_tvw_is_not_always_more_accurate():
    assert fed2a.less_accurate("fedavg") == ["tvw-exp 69.32 against 69.91 (fmnist)"]
    assert [words[:7] for words in fed2a.less_accurate("rce")] == ["tvw-exp", "tvw-log"]


def test_fed2as_gtsrb_model_halves_the_dense_layers():
    assert fed2a.gtsrb_parameters((64, 128), (128, 256)) == (209_792, 2_403_499)
    assert fed2a.gtsrb_parameters((32, 64), (256, 512)) == (53_696, 2_513_195)


def test_fed2as_partitions_need_more_than_there_is():
    assert fed2a.demand() == {"FMNIST": 60_000, "CIFAR-10": 60_000, "GTSRB": 36_000}


def test_fed2as_rounds_do_not_rise_with_every_step_of_d():
    assert [len(fed2a.falls(data)) for data in fed2a.DEEP_ROUNDS] == [2, 1, 3]
    assert fed2a.soonest() == [7, 9]


def test_fedlcs_localcol_chooses_nobody_with_the_k_of_eq_40():
    assert fedlc.chosen(1) == 0
    assert fedlc.chosen(0) > 0


def test_fedlcs_footnote_has_another_closed_form():
    total, right, printed = fedlc.retransmissions(0.1)
    assert total == pytest.approx(right) == pytest.approx(0.1 / 0.81)
    assert printed == pytest.approx(0.1 / 0.99)


def test_fedlcs_seconds_stand_under_two_targets():
    first, second = fedlc.targets("Sec. 5.2.1"), fedlc.targets("Sec. 5.2.2")
    assert {data: seconds for data, (_, seconds) in first.items()} == {
        **{"cifar10": 1843, "emnist_byclass": 1491, "image100": 1603}
    }
    for data, (target, seconds) in first.items():
        assert second[data] == (pytest.approx(target, abs=0.05), seconds)
        assert second[data][0] != target


def test_fedlcs_traffic_and_repeated_number():
    assert fedlc.traffic() == "on EMNIST fedlc +26%, sc_fedlc +10%"
    assert fedlc.twice().count("3654 s") == 2
    assert 731_668 + 82_587 == 697_932 + 116_323


def test_fedaggs_accuracy_falls_with_participation():
    falls = [(method, part, full) for method, part, full in fedagg.pairs() if full < part]
    assert (len(fedagg.pairs()), len(falls)) == (89, 18)
    assert [row for row in falls if row[0] == "fedagg"] == [("fedagg", 94.91, 93.51), ("fedagg", 94.10, 93.88)]

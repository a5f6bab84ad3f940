"""docs/ledger.md, "When a number agrees" and "When an ordering shows", by numbers worked out by hand."""

from __future__ import annotations

import math

import pytest

from leaderboards.judge import agrees, difference, margin, printed_relation, relation
from leaderboards.ledger import load

CLAIMS = {claim.id: claim for claim in load()}
T3 = 4.302652729696142  # t(0.975, 2), from a table


def claim(start):
    [found] = [c for name, c in CLAIMS.items() if name.startswith(start)]
    return found


def test_margins_are_those_of_the_docs():
    assert margin(claim("fedagg/table-vi/fedavg/cifar10/model=lenet")) == 1.0
    assert margin(claim("fedlc/sec-5.3.4/fedlc_t/cifar10/level-1+testbed+drop=0.1/")) == pytest.approx(0.01)
    assert margin(claim("fedlga/table-vi/fedavg/fmnist/")) == pytest.approx(11.6)
    assert margin(claim("fed2a/sec-4.4/fed2a-vs-best-baseline/gtsrb/r=300/round_reduction")) == 5.0
    assert margin(claim("fed2a/sec-1/")) == 1.5
    assert margin(claim("fedlga/table-v/fedprox/fmnist/rho=0.5+tau_max=e-1+e=5/seconds_per_round"), 1.37) == (
        pytest.approx(0.137)
    )


def test_a_number_agrees_within_the_margin_or_within_its_interval():
    assert agrees(100, [95, 96, 97], half=0, allowed=10)
    half = T3 * math.sqrt(2.5 * 2.5) / math.sqrt(3)  # of 2.5 apart values
    values = [97.5, 100, 102.5]
    assert agrees(100 + half + 0.4, values, half=0.5, allowed=2.2)
    assert not agrees(100 + half + 0.6, values, half=0.5, allowed=2.2)


def test_an_interval_that_holds_everything_confirms_nothing():
    values = [60, 100, 140]  # half-width 99
    assert not agrees(100, values, half=0, allowed=10)
    assert not agrees(150, values, half=0, allowed=10)


def test_two_seeds_never_agree_and_never_is_only_never():
    assert not agrees(100, [100, 100], half=0, allowed=10)
    assert not agrees(100, [100, 100, math.inf], half=0, allowed=10)
    assert agrees(None, [math.inf] * 3, half=0, allowed=0)
    assert not agrees(None, [math.inf, math.inf, 180], half=0, allowed=0)


def test_three_pairs_need_an_interval_beyond_zero_and_a_mean_beyond_the_margin():
    # differences -0.5, -0.4, -0.6: mean -0.5, half-width 4.303 * 0.1 / sqrt 3 = 0.248
    assert relation([-0.5, -0.4, -0.6], 0.1, more_is_better=False) == "better"
    assert relation([-0.5, -0.4, -0.6], 0.1, more_is_better=True) == "worse"
    assert relation([-0.5, -0.4, -0.6], 0.55, more_is_better=True) == "unclear"  # the interval leaves the margin
    assert relation([-0.5, 0.5, -0.6], 0.1, more_is_better=True) == "unclear"
    assert relation([0.01, 0.0, -0.01], 0.1, more_is_better=True) == "tie"  # half-width 0.025


def test_one_or_two_pairs_have_to_agree_beyond_the_margin():
    assert relation([0.2], 0.1, more_is_better=True) == "better"
    assert relation([0.2, 0.05], 0.1, more_is_better=True) == "unclear"
    assert relation([0.05, -0.05], 0.1, more_is_better=True) == "tie"
    assert relation([-0.2, -0.3], 0.1, more_is_better=True) == "worse"


def test_never_is_later_than_every_number():
    assert difference(math.inf, 100, relative=True) == math.inf
    assert difference(100, math.inf, relative=True) == -math.inf
    assert difference(math.inf, math.inf, relative=True) == 0
    assert difference(50, 100, relative=True) == -0.5
    assert relation([-math.inf, -0.5, -0.2], 0.1, more_is_better=False) == "better"
    assert relation([-math.inf, 0.0, -0.2], 0.1, more_is_better=False) == "unclear"


def test_printed_numbers_closer_than_the_margin_are_a_tie():
    lga, avg = claim("fedlga/table-vi/fedlga/fmnist/rho=0.5+tau_max=0.8"), claim("fedlga/table-vi/fedavg/fmnist/")
    prox, nova = claim("fedlga/table-vi/fedprox/fmnist/"), claim("fedlga/table-vi/fednova/fmnist/")
    assert printed_relation(lga, avg, more_is_better=False) == "better"
    assert printed_relation(avg, lga, more_is_better=False) == "worse"
    assert printed_relation(prox, nova, more_is_better=False) == "tie"  # 96 and 100

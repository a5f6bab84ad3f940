"""docs/ledger.md, "When a number agrees" and "When an ordering shows", by numbers worked out by hand."""

from __future__ import annotations

import math

import pytest

from leaderboards.judge import (
    Ordering,
    agreement,
    difference,
    holm,
    margin,
    ordering,
    printed_relation,
    seeds_needed,
)
from leaderboards.ledger import load
from leaderboards.simulate import simulate, upper

CLAIMS = {claim.id: claim for claim in load()}
# t(0.95, 2), t(0.975, 2), from a table
ONE_SIDED, TWO_SIDED = 2.919985580353726, 4.302652729696142
ROOT = math.sqrt(3)


def claim(start):
    [found] = [c for name, c in CLAIMS.items() if name.startswith(start)]
    return found


def judged(claimed, values, allowed, half=0.0, last=200, looks=1):
    return agreement(claimed, values, half, allowed, last=last, looks=looks)


def test_margins_are_those_of_the_docs():
    assert margin(claim("fedagg/table-vi/fedavg/cifar10/model=lenet")) == 1.0
    assert margin(claim("fedlc/sec-5.3.4/fedlc_t/cifar10/level-1+testbed+drop=0.1/")) == pytest.approx(0.01)
    assert margin(claim("fedlga/table-vi/fedavg/fmnist/")) == pytest.approx(11.6)
    assert margin(claim("fed2a/sec-4.4/fed2a-vs-best-baseline/gtsrb/r=300/round_reduction")) == 5.0
    assert margin(claim("fed2a/sec-1/fed2a-vs-best-baseline/cifar10/")) == 1.5
    assert margin(claim("fedlga/table-v/fedprox/fmnist/rho=0.5+tau_max=e-1+e=5/seconds_per_round"), 1.37) == (
        pytest.approx(0.137)
    )


def test_the_whole_interval_has_to_lie_within_the_margin():
    values = [97.0, 98.0, 99.0]  # mean 98, deviation 1, half-width of the 90 % interval 2.92 / sqrt 3 = 1.686
    width = ONE_SIDED / ROOT
    assert judged(100, values, 2 + width + 0.01).agrees
    assert not judged(100, values, 2 + width - 0.01).agrees
    assert not judged(100, [110.0] * 3, 10).agrees  # at the very edge, without any noise


def test_two_numbers_that_may_be_meant_share_the_level():
    values = [97.0, 98.0, 99.0]
    narrow, wide = 2 + ONE_SIDED / ROOT + 0.1, 2 + TWO_SIDED / ROOT + 0.1
    assert not judged(100, values, narrow, looks=2).agrees
    assert judged(100, values, wide, looks=2).agrees


def test_too_noisy_says_how_many_seeds_would_do():
    found = judged(100, [95.0, 100.0, 105.0], 4)  # deviation 5
    # t(0.95, n - 1) 5 / sqrt n <= 4: n = 6: 4.11, n = 7: 3.67
    assert (found.agrees, found.differs, found.why) == (False, False, "too noisy: 7 seeds with this spread would do")
    assert seeds_needed(5, 4) == 7
    assert seeds_needed(5, 0) is None
    assert judged(104.5, [95.0, 100.0, 105.0], 4).why == "too noisy"


def test_another_number_lies_beyond_the_margin_and_outside_what_a_single_run_of_ours_may_give():
    values = [59.0, 60.0, 61.0]  # 95 % of the mean: +- 2.48; a next run: +- 4.303 sqrt(4/3) = 4.97
    assert judged(71, values, 7).differs
    assert not judged(69, values, 7).differs  # the mean may be within the margin of it
    inside = judged(64.5, values, 1)
    assert not inside.differs
    assert inside.why == "outside the margin, but a single run of ours may give it"
    assert not judged(64.99, values, 1, half=0.05).differs  # it may stand for 64.94
    assert judged(65.1, values, 1, half=0.05).differs


def test_few_seeds_decide_nothing_and_a_miss_is_censored():
    assert judged(100, [100, 100], 10).why == "2 of at least 3 seeds"
    missed = judged(100, [100, 100, math.inf], 10)
    assert (missed.agrees, missed.differs) == (False, False)
    assert missed.why == "censored: 1 of 3 seeds never reach the target in 200 rounds"
    assert judged(None, [math.inf] * 3, 0).agrees
    assert not judged(None, [math.inf, math.inf, 180], 0).agrees
    assert judged(None, [50, 51, 52], 0).differs
    assert not judged(None, [150, 180, 199], 0).differs  # the next one may miss


def relation(differences, allowed, more_is_better):
    return ordering(differences, allowed).relation(allowed, more_is_better)


def test_a_difference_needs_a_mean_beyond_the_margin_and_a_small_chance():
    # differences -0.5, -0.4, -0.6: mean -0.5, t = 0.5 sqrt 3 / 0.1 = 8.66, two-sided chance 0.0131
    found = ordering([-0.5, -0.4, -0.6], 0.1)
    assert found.different == pytest.approx(0.0131, abs=1e-4)
    assert found.relation(0.1, more_is_better=False) == "better"
    assert found.relation(0.1, more_is_better=True) == "worse"
    assert relation([-0.5, -0.4, -0.6], 0.55, more_is_better=True) == "unclear"
    assert relation([-0.5, 0.5, -0.6], 0.1, more_is_better=True) == "unclear"
    assert relation([0.01, 0.0, -0.01], 0.1, more_is_better=True) == "tie"  # half-width 0.017
    assert relation([0.05] * 3, 0.1, more_is_better=True) == "tie"


def test_one_or_two_pairs_show_nothing():
    assert relation([0.5], 0.1, more_is_better=True) == "unclear"
    assert relation([0.5, 0.5], 0.1, more_is_better=True) == "unclear"


def test_never_is_later_than_every_number_and_two_nevers_tell_nothing():
    assert difference(math.inf, 100, relative=True) == math.inf
    assert difference(100, math.inf, relative=True) == -math.inf
    assert math.isnan(difference(math.inf, math.inf, relative=True))
    assert difference(50, 100, relative=True) == -0.5
    assert ordering([math.nan, math.nan, 0.5, 0.5], 0.1).pairs == 2


def test_where_a_side_misses_only_signs_count_and_six_pairs_are_needed():
    assert relation([-math.inf] * 5, 0.1, more_is_better=False) == "unclear"  # 2 / 2^5 = 0.0625
    assert relation([-math.inf] * 6, 0.1, more_is_better=False) == "better"
    assert relation([-math.inf] * 5 + [-0.5], 0.1, more_is_better=False) == "better"
    assert relation([-math.inf] * 5 + [0.05], 0.1, more_is_better=False) == "unclear"
    assert relation([math.inf] * 6, 0.1, more_is_better=False) == "worse"


def test_orderings_of_one_family_are_corrected_by_holm_from_five_pairs_on():
    family = [Ordering(5, 1.0, p, 1.0) for p in (0.01, 0.04, 0.03)] + [Ordering(3, 1.0, 0.04, 1.0)]
    fixed = holm(family)
    assert [one.different for one in fixed] == pytest.approx([0.03, 0.06, 0.06, 0.04])
    assert [one.corrected for one in fixed] == [True, True, True, False]


def test_printed_numbers_closer_than_the_margin_are_a_tie():
    lga, avg = claim("fedlga/table-vi/fedlga/fmnist/rho=0.5+tau_max=0.8"), claim("fedlga/table-vi/fedavg/fmnist/")
    prox, nova = claim("fedlga/table-vi/fedprox/fmnist/"), claim("fedlga/table-vi/fednova/fmnist/")
    assert printed_relation(lga, avg, more_is_better=False) == "better"
    assert printed_relation(avg, lga, more_is_better=False) == "worse"
    assert printed_relation(prox, nova, more_is_better=False) == "tie"  # 96 and 100


def test_the_rules_err_on_few_claims_whose_truth_is_known():
    rows = [line.split() for line in simulate(1000).splitlines()[1:]]
    shares = [float(row[-2].rstrip("%")) for row in rows]
    assert len(rows) == 7
    assert max(shares) < 7.0  # 5 %, and three standard errors of a thousand
    assert upper(50, 1000) == pytest.approx(0.0630, abs=2e-4)


@pytest.mark.slow
def test_ten_thousand_claims_of_each_kind_leave_no_more_than_six_per_cent():
    assert max(float(line.split()[-1].rstrip("%")) for line in simulate(10_000).splitlines()[1:]) < 6.0

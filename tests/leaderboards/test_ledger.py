"""The claims: all there, named after what they are, refused when something is off."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from leaderboards.ledger import Claim, LedgerError, load, slug, validate

GOOD = Claim(
    *("fedlga/table-v/fedavg/fmnist/rho=0.5+e=5/rounds_to_target", "fedlga", "Table V", "fedavg", "fmnist"),
    *("rho=0.5;E=5", "rounds_to_target", "116", "rounds"),
)


def test_all_claims_of_the_four_papers_are_there():
    claims = load()
    assert Counter(claim.paper for claim in claims) == {"fedagg": 255, "fed2a": 182, "fedlga": 112, "fedlc": 77}
    assert len({claim.id for claim in claims}) == 626
    assert sum(claim.value is None for claim in claims) == 3  # Fed2A's targets on GTSRB that three methods missed


def test_a_name_is_readable_and_needs_no_quotes():
    for claim in load():
        assert re.fullmatch(r"[a-z0-9._=+/-]+", claim.id)
        assert claim.id.count("/") == 5
    names = {claim.id: claim.text for claim in load()}
    assert names["fedlga/table-vi/fedlga/fmnist/rho=0.5+tau_max=0.2e+e=5/rounds_to_target"] == "29 rounds"
    assert names["fed2a/table-4/plu-300-10-8/gtsrb/r=300/upload_to_target"] == "1.37 GB"
    assert names["fedagg/table-iii/fedagg/mnist/model=linear+dist=non-iid+participation=20/final_accuracy"] == "89.45 %"
    assert names["fedlc/sec-5.2.1/fedlc/cifar10/degree-1+simulation+target=0.6/virtual_seconds_to_target"] == "1843 s"


def test_printed_digits_are_kept():
    half = {claim.printed: claim.half for claim in load() if claim.paper == "fed2a"}
    assert half["87.50"] == pytest.approx(0.005)
    assert half["84.6"] == pytest.approx(0.05)
    assert half["206592"] == 0  # a count


def test_slug_drops_what_a_shell_would_touch():
    assert slug("Fig. 5(b) text", "-", "a;B=20%") == "fig-5-b-text/any/a+b=20"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"id": "x"}, "has to be named"),
        ({"printed": "nan"}, "is not a number"),
        ({"printed": "-3"}, "is not a number"),
        ({"printed": "inf"}, "is not a number"),
        ({"printed": ""}, "is not a number"),
        ({"printed": "0"}, "above 0"),
        ({"printed": "1.5"}, "is not a count"),
        ({"unit": "s"}, "is not given in 's'"),
        ({"metric": "speed"}, "unknown metric"),
        ({"metric": "final_accuracy", "unit": "%", "printed": "101"}, "at most 100"),
        ({"metric": "final_accuracy", "unit": "", "printed": "60.1"}, "at most 1"),
        ({"metric": "final_accuracy", "unit": "%", "printed": "never"}, "is not possible"),
    ],
)
def test_a_wrong_row_is_refused(changes, reason):
    claim = replace(GOOD, **changes)
    if "id" not in changes:
        columns = (claim.paper, claim.where, claim.method, claim.dataset, claim.setting, claim.metric)
        claim = replace(claim, id=slug(*columns))
    with pytest.raises(LedgerError, match=reason):
        validate([claim])


def test_two_claims_of_one_name_are_refused():
    validate([GOOD, replace(GOOD, dataset="cifar10", id=GOOD.id.replace("fmnist", "cifar10"))])
    with pytest.raises(LedgerError, match="twice"):
        validate([GOOD, GOOD])

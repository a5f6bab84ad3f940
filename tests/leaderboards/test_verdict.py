"""What arithmetic says about the claims, recomputed here without leaderboards.arithmetic."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from leaderboards.arithmetic import Book, Derivation
from leaderboards.ledger import load
from leaderboards.measure import Shelf
from leaderboards.papers import fed2a, special
from leaderboards.verdict import verdict as judge
from leaderboards.verdict import verdicts as judged

TABLE_3 = {"fmnist": (206_592, 3_413_770), "cifar10": (829_184, 9_574_154), "gtsrb": (209_792, 2_403_499)}
FED2A_D = {"fmnist": 7, "cifar10": 8, "gtsrb": 8}
FOUR = ("fedlga", "fed2a", "fedlc", "fedagg")


@pytest.fixture(scope="module")
def verdicts():
    """Of the first four papers, by arithmetic alone, whatever models exist."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fed2a, "layers", lambda: {})
        return {v.id: v for v in judged([c for c in load() if c.paper in FOUR], found=())}


def test_there_is_one_plain_verdict_per_claim(verdicts):
    assert list(verdicts) == [claim.id for claim in load() if claim.paper in FOUR]
    counts = Counter((v.claim.paper, v.verdict) for v in verdicts.values())
    assert {type(v.verdict) for v in verdicts.values()} == {str}
    assert sum(n for (_, verdict), n in counts.items() if verdict in ("consistent", "inconsistent")) == 168
    nothing = ("not run", "cannot run here")
    assert all((v.measured is None) == (v.verdict in nothing) for v in verdicts.values())
    assert {v.verdict for v in verdicts.values() if v.claim.is_ordinal} == {*nothing}


def test_costs_of_fed2as_table_4_follow_from_its_rounds(verdicts):
    cells = [v for v in verdicts.values() if v.claim.metric == "upload_to_target"]
    misses = {}
    for v in cells:
        rounds = int(verdicts[v.id.replace("upload_to_target", "rounds_to_target")].claimed)
        method, data = v.claim.method, v.claim.dataset
        D = FED2A_D[data] if method == "fed2a" else int(method[-2]) if method.startswith("plu") else 10
        parameters = 0
        for t in range(1, rounds + 1):
            place = (t - 1) % 10 + 1  # of the ten rounds of a period
            shallow, deep = TABLE_3[data]
            parameters += shallow + (deep if t <= 10 or place > 10 - D else 0)
        cost = 4 * parameters / 1024**3
        assert v.measured == pytest.approx(cost, rel=1e-12)
        if f"{cost:.2f}" != v.claim.printed:
            misses[method, data] = v.claimed - cost
        assert v.verdict == ("consistent" if f"{cost:.2f}" == v.claim.printed else "inconsistent")
    assert len(cells) == 48
    assert set(misses) == {("plu(300,10,1)", "fmnist"), ("plu(300,10,6)", "gtsrb"), ("plu(300,10,9)", "gtsrb")}
    assert max(map(abs, misses.values())) == pytest.approx(0.0083, abs=5e-5)


def test_seconds_of_fedlgas_table_v_are_seconds_a_round_times_rounds(verdicts):
    totals = [v for v in verdicts.values() if v.claim.metric == "seconds_to_target"]
    assert len(totals) == 27
    for v in totals:
        single = verdicts[v.id.replace("seconds_to_target", "seconds_per_round")].claimed
        name = f"fedlga/table-vi/{v.claim.method}/{v.claim.dataset}/rho=0.5+tau_max=0.8e+e=5/rounds_to_target"
        assert abs(v.claimed / (single * verdicts[name].claimed) - 1) < 0.005
        assert v.verdict == "consistent"


# every number in a text that follows from a table, from the digits printed there
TEXTS = {
    "fedlga/fig-3-c-text/fedlga/": (145, "consistent"),
    "fedlga/fig-3-c-text/fedavg/": (277 / 145, "consistent"),
    "fedlga/fig-3-c-text/fedprox/": (213 / 145, "consistent"),
    "fedlga/fig-3-c-text/fednova/": (269 / 145, "inconsistent"),  # 1.855 printed as 1.8, and for fedcm as 1.9
    "fedlga/fig-3-c-text/scaffold/": (185 / 145, "consistent"),
    "fedlga/fig-3-c-text/feddyn/": (162 / 145, "consistent"),
    "fedlga/fig-3-c-text/fedcm/": (269 / 145, "consistent"),
    "fedlga/fig-3-c-text/mimelite/": (272 / 145, "consistent"),
    "fedlga/fig-3-c-text/fedsam/": (215 / 145, "consistent"),
    "fedlga/fig-5-b-text/fedavg/": (100 * (64.44 / 60.91 - 1), "inconsistent"),
    "fedlga/fig-9-text/fedlga/cifar100/rho=0.5+e=5+k=25-vs-k=10/": (100 * (1 - 78 / 145), "consistent"),
    "fed2a/abstract/fed2a-vs-best-baseline/fmnist/r=300/upl": (77, "consistent"),  # of the 77.30 of Sec. 1
    "fed2a/abstract/fed2a-vs-best-baseline/cifar10/": (19, "consistent"),
    "fed2a/abstract/fed2a-vs-best-baseline/fmnist/r=300/rou": (76, "consistent"),
    "fed2a/sec-1/fed2a-vs-best-baseline/cifar10/": (100 * (45.99 / 38.58 - 1), "consistent"),
    "fed2a/sec-1/fed2a-vs-best-baseline/fmnist/r=300/upl": (100 * (1 - 0.20 / 1.04), "inconsistent"),
    "fed2a/sec-1/fed2a-vs-best-baseline/fmnist/r=300/rou": (100 * (1 - 18 / 77), "consistent"),
    "fed2a/sec-4.2/": (100 * 0.88 / 1.04, "consistent"),
    "fed2a/sec-4.3/tvw-inv-vs-best-baseline/fmnist/r=300/acc": (100 * (71.70 / 70.22 - 1), "consistent"),
    "fed2a/sec-4.3/tvw-inv-vs-best-baseline/cifar10/r=300/acc": (100 * (44.94 / 38.58 - 1), "consistent"),
    "fed2a/sec-4.3/tvw-inv-vs-best-baseline/gtsrb/r=300/acc": (100 * (89.62 / 86.30 - 1), "consistent"),
    "fed2a/sec-4.3/tvw-inv-vs-best-baseline/fmnist/r=300/rou": (100 * (1 - 39 / 77), "consistent"),
    "fed2a/sec-4.3/tvw-inv-vs-best-baseline/cifar10/r=300/rou": (100 * (1 - 60 / 89), "consistent"),
    "fed2a/sec-4.3/tvw-inv-vs-best-baseline/gtsrb/r=300/rou": (100 * (1 - 133 / 265), "consistent"),
    "fed2a/sec-4.3/rce-vs-best-baseline/gtsrb/": (100 * (87.30 / 86.30 - 1), "consistent"),
    "fed2a/sec-4.3/rce-vs-best-baseline/cifar10/r=300/acc": (100 * (41.07 / 38.58 - 1), "consistent"),
    "fed2a/sec-4.3/rce-vs-best-baseline/cifar10/r=300/rou": (100 * (1 - 84 / 89), "consistent"),
    "fed2a/sec-4.3/rce-vs-best-baseline/fmnist/": (100 * (1 - 51 / 77), "consistent"),
    "fed2a/sec-4.4/fed2a/fmnist/": (74.76, "consistent"),
    "fed2a/sec-4.4/fed2a/cifar10/": (45.99, "consistent"),
    "fed2a/sec-4.4/fed2a/gtsrb/": (90.59, "consistent"),
    "fed2a/sec-4.4/fed2a-vs-best-baseline/cifar10/r=300/acc": (100 * (45.99 / 38.58 - 1), "consistent"),
    "fed2a/sec-4.4/fed2a-vs-best-baseline/fmnist/r=300/rou": (100 * (1 - 18 / 77), "consistent"),
    "fed2a/sec-4.4/fed2a-vs-best-baseline/cifar10/r=300/rou": (100 * (1 - 54 / 89), "inconsistent"),
    "fed2a/sec-4.4/fed2a-vs-best-baseline/gtsrb/r=300/rou": (100 * (1 - 120 / 265), "consistent"),
    "fed2a/sec-4.4/fed2a-vs-best-baseline/fmnist/r=300/upl": (100 * (1 - 0.20 / 1.04), "inconsistent"),
    "fed2a/sec-4.4/fed2a-vs-best-baseline/cifar10/r=300/upl": (100 * (1 - 1.74 / 3.45), "inconsistent"),
    "fed2a/sec-4.4/fed2a-vs-best-baseline/gtsrb/r=300/upl": (100 * (1 - 0.97 / 2.58), "consistent"),
    "fed2a/fig-7-caption/fedprox/": (300 * sum(TABLE_3["gtsrb"]) * 4 / 2**30, "consistent"),
    "fed2a/fig-7-caption/fedasync/": (300 * sum(TABLE_3["gtsrb"]) * 4 / 2**30, "consistent"),
    "fedlc/sec-5.2.1/fedlc/cifar10/degree-1+simulation/": (100 * (1 - 1843 / 3654), "consistent"),
    "fedlc/sec-5.2.1/fedlc/emnist_byclass/degree-1+simulation/": (100 * (1 - 1491 / 2266), "consistent"),
    "fedlc/sec-5.2.1/fedlc/image100/degree-1+simulation/": (100 * (1 - 1603 / 2445), "consistent"),
    "fedlc/sec-5.2.2/sc_fedlc-vs-fedlc/cifar10/": (100 * (1 - 1709 / 1843), "consistent"),
    "fedlc/sec-5.2.2/sc_fedlc-vs-fedlc/emnist_byclass/": (100 * (1 - 1252 / 1491), "consistent"),
    "fedlc/sec-5.2.2/sc_fedlc-vs-fedlc/image100/": (100 * (1 - 1323 / 1603), "consistent"),
    "fedlc/sec-5.3.2/sc_fedlc-vs-ce_afl/cifar10/level-1+testbed/": (0.60 - 0.59, "consistent"),
    "fedlc/sec-5.3.2/sc_fedlc-vs-ce_afl/cifar10/level-3+testbed/": (0.62 - 0.53, "consistent"),
}


def test_numbers_in_texts_follow_from_the_tables_or_do_not(verdicts):
    for prefix, (computed, verdict) in TEXTS.items():
        [v] = [v for name, v in verdicts.items() if name.startswith(prefix)]
        assert v.measured == pytest.approx(computed, rel=1e-12), prefix
        assert v.verdict == verdict, prefix
    judged = {v.id for v in verdicts.values() if v.verdict in ("consistent", "inconsistent")}
    tables = [name for name in judged if not name.startswith(tuple(TEXTS))]
    assert {name.split("/")[1] for name in tables} == {"table-v", "table-3", "table-4"}


def test_a_table_that_repeats_another_repeats_its_digits(verdicts):
    repeated = [v for v in verdicts.values() if v.id.startswith("fedagg/table-v/") and v.verdict != "not run"]
    assert len(repeated) == 39
    for v in repeated:
        assert v.verdict == "consistent"
        assert v.claim.printed == verdicts[v.id.replace("table-v/", "table-iii/")].claim.printed


def test_rounding_of_the_inputs_is_not_held_against_a_paper():
    claims = {claim.id: claim for claim in load()}
    printed = claims["fed2a/sec-1/fed2a-vs-best-baseline/cifar10/r=300/accuracy_gain"]
    inputs = tuple(claims[f"fed2a/table-4/{m}/cifar10/r=300/final_accuracy"] for m in ("fed2a", "fedprox"))
    gain = Derivation(lambda a, b: 100 * (a / b - 1), inputs, "")
    assert f"{gain.value:.2f}" == "19.21" != printed.printed == "19.20"
    low, high = gain.bounds()
    assert (low, high) == pytest.approx((100 * (45.985 / 38.585 - 1), 100 * (45.995 / 38.575 - 1)))
    assert gain.agrees(printed)


def test_a_wrong_number_is_inconsistent_and_says_by_how_much():
    claims = list(load())
    at = next(i for i, c in enumerate(claims) if c.id == "fed2a/table-4/fedavg/fmnist/r=300/upload_to_target")
    wrong = judge(replace(claims[at], printed="1.28"), Book(claims), Shelf(()), {})
    assert wrong.verdict == "inconsistent"
    assert wrong.why.endswith("1.2678; printed 0.012 more")


def test_our_own_models_make_it_exact(monkeypatch):
    book, claims = Book(load()), [c for c in load() if c.metric in special(c.paper).exact]
    assert len(claims) == 17
    monkeypatch.setattr(fed2a, "layers", lambda: {})
    assert {judge(c, book, Shelf(()), {}).verdict for c in claims if c.metric == "parameters"} == {"not run"}
    monkeypatch.setattr(fed2a, "layers", lambda: TABLE_3)
    assert {judge(c, book, Shelf(()), {}).verdict for c in claims} == {"exact"}
    monkeypatch.setattr(fed2a, "layers", lambda: {name: (s + 1, d) for name, (s, d) in TABLE_3.items()})
    wrong = [c.setting for c in claims if judge(c, book, Shelf(()), {}).verdict == "not confirmed"]
    assert wrong == ["shallow"] * 3


def test_parameters_are_counted_on_the_models_that_a_command_would_train():
    assert fed2a.layers() == TABLE_3

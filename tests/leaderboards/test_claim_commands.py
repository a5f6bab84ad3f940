"""Every claim has a command, or a reason why it has none."""

from __future__ import annotations

import shlex
import sys

import pytest

from bench.prepare import compose
from leaderboards import __main__ as command
from leaderboards import rivals
from leaderboards.commands import recipe
from leaderboards.ledger import load
from leaderboards.papers.fedlga import PLACE
from leaderboards.plans import canonical, cell, places
from sweeps.plan import find

CLAIMS = {claim.id: claim for claim in load()}


def test_each_claim_has_a_command_or_a_reason():
    recipes = [recipe(claim) for claim in load()]
    for r in recipes:
        assert r.runs or r.reason, r.claim.id
        assert all(run.startswith("python bench.py ") or r.scale is None for run in r.runs), r.claim.id
        assert all("scale=paper" in run and "seed=" in run for run in r.runs if r.scale is not None), r.claim.id
    computed = [r for r in recipes if r.scale is None]
    assert {r.claim.metric for r in computed} == {"parameters", "unit_cost", "upload_total", "rdm_pairs"}
    for claim in (r.claim for r in recipes if r.reason):
        elsewhere = claim.dataset == "image100" or "testbed" in claim.setting
        assert elsewhere or "mean" in claim.metric or claim.metric == PLACE, claim.id


def test_the_command_of_a_claim_is_about_its_method_and_data_set():
    """Overrides name the method as bench.py does; strategies of Fed2A are one algorithm with switches."""
    for claim in load():
        r = recipe(claim)
        if r.scale is None or not r.runs or " vs " in claim.method or claim.method == "best method":
            continue
        own = claim.method if not claim.method.startswith(("plu", "tvw", "rce")) else "fed2a"
        data = {"emnist_letters": "emnist", "emnist_byclass": "emnist"}.get(claim.dataset, claim.dataset)
        first = [shlex.split(run) for run in r.runs]
        assert any(f"algo={own}" in words for words in first), claim.id
        assert all(f"dataset={data}" in words and f"protocol={claim.paper}" in words for words in first), claim.id


def test_sweeps_named_in_commands_exist_and_hold_the_runs():
    seen = set()
    for claim in load():
        r = recipe(claim)
        if r.sweep is None or r.sweep in seen:
            continue
        seen.add(r.sweep)
        name, *keys = shlex.split(r.sweep)[3:]
        assert {run.partition(" seed=")[0] for run in r.runs if name in r.sweep} & {
            text.partition(" seed=")[0] for text in find(name, keys).commands
        }, r.sweep
    assert len(seen) > 30


@pytest.mark.parametrize(
    "name",
    [
        "fedlga/table-vi/fedlga/fmnist/rho=0.5+tau_max=0.2e+e=5/rounds_to_target",
        "fed2a/table-4/plu-300-10-8/gtsrb/r=300/upload_to_target",
        "fedagg/table-iii/fedagg/mnist/model=linear+dist=non-iid+participation=100/final_accuracy",
        "fedlc/sec-5.2.3/sc_fedlc/emnist_byclass/degree-3+simulation+t=681s/accuracy_at_time",
    ],
)
def test_printed_commands_are_valid(name):
    for run in recipe(CLAIMS[name]).runs:
        config = compose.config(shlex.split(run)[2:])
        assert (config["protocol"], config["scale"]) == (name.split("/")[0], "paper")


def test_words_of_settings_that_mean_the_same_runs_are_one():
    default = canonical("fedlga", "rho=0.5;tau_max=E-1;E=5")
    assert default == canonical("fedlga", "rho=0.5;tau_max=0.8E;E=5") == canonical("fedlga", "rho=0.5")
    assert default != canonical("fedlga", "rho=0.5;tau_max=0.6E;E=5")
    assert canonical("fedlga", "rho=0.5;E=8") != canonical("fedlga", "rho=0.5;tau_max=0.8E;E=8")
    assert canonical("fedlc", "degree-1;simulation;target=0.6") == canonical("fedlc", "degree-1;simulation;t=891s")


def test_a_claims_own_table_is_preferred_to_another_sweep_with_the_same_cell():
    wanted = cell("fedlga", "fedprox", "fmnist", "rho=0.5")
    assert {place.sweep.name for place in places(wanted, "Table V") if place.counts} == {"fedlga/table5"}
    assert {place.sweep.name for place in places(wanted, "Table VI") if place.counts} == {"fedlga/table6"}


def test_rivals_are_those_of_the_docs():
    def rival(start):
        [claim] = [c for name, c in CLAIMS.items() if name.startswith(start)]
        other = rivals.rival(claim)
        return other and (other.method, other.printed)

    assert rival("fedlga/table-vi/fedlga/fmnist/rho=0.5+tau_max=0.2e") == ("fedavg", "116")
    assert rival("fedlga/table-vi/fedprox/fmnist/") == ("fedlga", "60")
    assert rival("fedlga/table-vi/fedavg/cifar10/") == ("fedlga", "220")
    assert rival("fed2a/table-4/rce/gtsrb/r=300/final_accuracy") == ("fedavg", "86.30")
    assert rival("fed2a/table-4/fedprox/gtsrb/r=300/final_accuracy") == ("fed2a", "90.59")
    assert rival("fedagg/table-iii/fedgh/mnist/model=linear+dist=iid+participation=100/") == ("fedagg", "90.77")
    assert rival("fedlc/sec-5.2.1/fedlc/cifar10/degree-1+simulation+target=0.6/") == ("ce_afl", "3654")
    assert rival("fedlga/fig-6-text/fedlga/fmnist/") == ("fedavg", "104")
    assert rival("fedlga/fig-3-c-text/fedavg/") is None


def run(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["leaderboards", *words])
    return command.main()


def test_the_verb_prints_scale_seeds_and_commands(monkeypatch, capsys):
    assert run(monkeypatch, "command", "fedlga/table-vi/fedprox/fmnist/rho=0.5+tau_max=0.8e+e=5/rounds_to_target") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("scale      paper") and lines[2] == "seeds      0, 1, 2"
    assert lines[3] == "all        python -m sweeps fedlga/table6 dataset=fmnist method=fedprox,fedlga"
    assert "algo=fedprox algo.mu=0.1 dataset=fmnist" in lines[4] and "algo=fedlga" in lines[5]
    assert run(monkeypatch, "command", "fedlc/sec-5.3.2/sc_fedlc/cifar10/level-1+testbed/best_accuracy") == 0
    assert "cannot run here: measured on a testbed" in capsys.readouterr().out


def test_an_unknown_claim_gets_the_nearest(monkeypatch, capsys):
    assert run(monkeypatch, "command", "fed2a/table-4/rce/gtsrb/r=300/final_acuracy") == 2
    assert "nearest: fed2a/table-4/rce/gtsrb/r=300/final_accuracy" in capsys.readouterr().err
    assert run(monkeypatch, "command", "x") == 2
    assert "There is no claim 'x'" in capsys.readouterr().err

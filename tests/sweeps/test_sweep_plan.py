"""The sweeps are the papers' tables: every claim that one run can settle has its run, and every command is valid."""

from __future__ import annotations

import shlex
import subprocess
import sys
from re import sub

import pytest

from algorithms.fed2a import plu_sends_deep
from bench.errors import UserError
from bench.prepare import compose
from bench.prepare.registry import transforms
from bench.simulation.transforms import message
from leaderboards.ledger import Claim, load
from sweeps.plan import PlannedRun, find, merged, sweeps
from sweeps.readings import CHOOSING

NAMES = {
    *(f"fedlga/{name}" for name in ("table4", "table5", "table6", "fig2", "fig6", "fig7", "fig8", "fig9", "fig10")),
    *("fedlga/variations", "fed2a/table4", "fed2a/distances", "fed2a/uploads"),
    *(f"fedlc/{name}" for name in ("degrees", "levels", "devices", "traffic", "loss", "budgets", "equal_rate")),
    *(f"fedagg/{name}" for name in ("table3", "table5", "table6", "fig2", "fig12", "alg1", "t500", "equal_rate")),
    *(f"{paper}/readings" for paper in ("fedlga", "fed2a", "fedlc", "fedagg")),
    *(f"{paper}/calibration" for paper in ("fedlga", "fed2a", "fedagg")),
}
FOUR = {name.partition("/")[0] for name in NAMES}
COMPARED = (" vs ", "best method")  # claims about two runs or more: the ledger takes them from the runs of each


def one_run(claim: Claim) -> bool:
    from_models = claim.paper == "fed2a" and claim.method == "-"
    return not from_models and not any(word in claim.method + claim.setting for word in COMPARED)


def homes(claim: Claim) -> list[str]:
    label = (claim.method, claim.dataset, claim.setting)
    return [
        sweep.name
        for sweep in sweeps().values()
        if sweep.name.startswith(f"{claim.paper}/")
        and claim.where in sweep.covers
        and sweep.seeds != CHOOSING  # runs that judge nothing
        and label in {run.label for run in sweep.runs}
    ]


def test_every_sweep_of_the_four_papers_is_there() -> None:
    assert set(sweeps()) >= NAMES


def test_every_claim_that_one_run_settles_has_exactly_one_sweep() -> None:
    claims = [claim for claim in load() if one_run(claim)]
    assert sum(claim.paper in FOUR for claim in claims) == 580  # the rest: Fed2A's counts, comparisons, orderings
    assert [claim.id for claim in claims if len(homes(claim)) != 1] == []


def test_every_place_a_sweep_covers_has_claims() -> None:
    places = {(claim.paper, claim.where) for claim in load()}
    assert {(s.name.partition("/")[0], where) for s in sweeps().values() for where in s.covers} <= places


@pytest.mark.parametrize("name", sorted(sweeps()))
def test_a_sweep_names_its_source_and_the_paper_protocol_and_scale(name: str) -> None:
    sweep, paper = sweeps()[name], name.partition("/")[0]
    scale = "cpu" if name.endswith(("/scale", "/target", "/uploads")) else "paper"
    assert sweep.source and len(sweep.seeds) == (1 if name.endswith("/scale") else 3)
    for run in sweep.runs:
        assert f"protocol={paper}" in run.overrides and f"scale={scale}" in run.overrides
        keys = [word.partition("=")[0] for word in run.overrides]
        assert len(keys) == len(set(keys)), run


def test_the_paper_grid_gives_every_method_three_trials_a_data_set() -> None:
    runs = find("fedlga/table4").runs
    labels = {run.label for run in runs}
    assert len({run.method for run in runs}) == 9 and len(labels) == 27
    assert {sum(run.label == label for run in runs) for label in labels} == {3}
    assert [r.overrides[1] for r in runs if r.label[:2] == ("fedprox", "fmnist")] == [
        *("algo.mu=0.1", "algo.mu=0.5", "algo.mu=1"),
    ]


def resolved(run: PlannedRun) -> dict[str, object]:
    return compose.config(shlex.split(run.command(1))[2:])


def covering(all_runs: list[PlannedRun]) -> list[PlannedRun]:
    """Few runs in which every override of every paper occurs, numbers with one of their values."""

    def words(run: PlannedRun) -> set[tuple[str, str]]:
        paper = next(word for word in run.overrides if word.startswith("protocol="))
        return {(paper, sub(r"=-?[0-9.]+$", "=number", word)) for word in run.overrides}

    found = {run: words(run) for run in all_runs}
    left, kept = set.union(*found.values()), []
    while left:  # the run with most of what is left
        kept.append(max(found, key=lambda run: len(found[run] & left)))
        left -= found[kept[-1]]
    return kept


def everything() -> list[PlannedRun]:
    return list({run.overrides: run for sweep in sweeps().values() for run in sweep.runs}.values())


def test_every_override_of_every_sweep_is_understood_by_the_benchmark() -> None:
    for run in covering(everything()):
        assert resolved(run)["seed"] == 1, run


@pytest.mark.slow
def test_every_command_of_every_sweep_is_understood_by_the_benchmark() -> None:
    for run in everything():
        assert resolved(run)["seed"] == 1, run


def test_a_label_says_what_the_command_does() -> None:
    (run,) = find("fedagg/table3", ["method=fedprox", "setting=model=LeNet-5;dist=Dir-1.0;participation=100%"]).runs
    config = resolved(run)
    assert config["dataset"]["split"] == "letters" and config["model"]["name"] == "lenet5"  # type: ignore[index]
    assert config["partition"]["alpha"] == 1.0 and config["cohort"] == config["clients"] == 100  # type: ignore[index]
    (run,) = find("fed2a/table4", ["method=plu(300,10,3)", "dataset=gtsrb", "setting=R=300"]).runs
    config = resolved(run)
    assert (config["algo"]["P"], config["algo"]["D"], config["rounds"]) == (10, 3, 300)  # type: ignore[index]
    assert (config["algo"]["tvw"], config["algo"]["rce"]) == ("none", False)  # type: ignore[index]


def test_uploads_of_one_setting_have_as_many_bytes() -> None:
    """As PLU(300, 10, D), within a thousandth where a key can reach it; bits are whole."""
    full, depths = 4 * 300 * 80_795, {"82 %": 8, "26 %": 2, "17 %": 1}
    for run in find("fed2a/uploads").runs:
        config, share = resolved(run), run.setting.rpartition("=")[2]
        deep = sum(plu_sends_deep(t, 10, depths[share]) for t in range(300))
        plu = 4 * (300 * 3_824 + deep * 76_971) / full
        assert share == f"{round(100 * plu)} %"
        if run.method.startswith("plu"):
            assert config["algo"]["D"] == depths[share] and config["upload"] == {"name": "none"}  # type: ignore[index]
            continue
        sent = 300 * message(transforms(config["upload"]), 80_795).bytes / full  # type: ignore[arg-type]
        assert abs(sent / plu - 1) < 1e-3 or (run.method == "fedavg, quantise" and sent < plu), run


def test_cells_that_share_a_run_share_its_job() -> None:
    sweep = find("fedlc/loss", ["dataset=cifar10", "method=fedlc_t", "seed=5"])
    assert len(sweep.runs) == 2 and len(sweep.jobs) == 1  # the whole budget, and its point at 1700 s


def test_keys_narrow_or_join() -> None:
    sweep = find("fedlga/table4", ["scale=cpu", "rounds=7", "dataset=fmnist", "algo=fedprox,fedsam", "seed=3,4"])
    assert sweep.title == "fedlga/table4 algo=fedprox,fedsam dataset=fmnist rounds=7 scale=cpu seed=3,4"
    assert len(sweep.jobs) == 2 * 3 * 2
    assert sweep.commands[0] == (
        "python bench.py algo=fedprox algo.mu=0.1 dataset=fmnist protocol=fedlga scale=cpu rounds=7 seed=3"
    )
    assert find("fedlc/degrees", ["dataset=emnist"]).runs == find("fedlc/degrees", ["dataset=emnist_byclass"]).runs


def test_the_order_of_keys_does_not_make_another_sweep() -> None:
    assert find("fedlga/fig2", ["scale=cpu", "rounds=7"]) == find("fedlga/fig2", ["rounds=7", "scale=cpu"])


def test_a_key_that_a_run_sets_is_replaced_in_its_place() -> None:
    assert merged(("algo=a", "lr=1", "scale=paper"), "lr=2") == ("algo=a", "lr=2", "scale=paper")
    assert merged(("algo=a",), "lr=2") == ("algo=a", "lr=2")


@pytest.mark.parametrize(
    ("name", "keys", "words"),
    [
        ("fedlga/tabel4", [], ("fedlga/table4", "list")),
        ("fed2a", [], ("several", "fed2a/table4, fed2a/distances")),
        ("fedlga/table4", ["dataset=mnist"], ("dataset=mnist", "fmnist")),
        ("fedlga/table4", ["fmnist"], ("key=value",)),
        ("fedlga/table4", ["seed=one"], ("seed=one", "seed=0,1,2")),
        ("fedlga/table4", ["out=here"], ("--out",)),
    ],
)
def test_a_wrong_name_or_key_is_refused_with_what_is_possible(name: str, keys: list[str], words: tuple[str]) -> None:
    with pytest.raises(UserError) as refusal:
        find(name, keys)
    assert all(word in str(refusal.value) for word in words)


def test_the_plan_needs_neither_torch_nor_optuna() -> None:
    code = "import sys, sweeps.plan as p; p.sweeps(); print(sorted({'torch', 'optuna', 'hydra'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

"""load("runs") as a researcher uses it: two tables that join by id, and filters that say what there is."""

import math
import subprocess
import sys

import pytest
from made_result import made_result

from bench.errors import UserError
from bench.record import Record, load


def make(out, algo, seed, accuracies, result=True, **fields):
    config = {
        "algo": {"name": algo, "_target_": f"algorithms.{algo}", **fields},
        "dataset": {"name": "digits"},
        "model": {"name": "mlp", "hidden": [64]},
        **{"protocol": "none", "scale": "paper", "seed": seed, "rounds": 9, "out": str(out), "group": "g"},
    }
    record = Record.create(config)
    for number, accuracy in enumerate(accuracies, start=1):
        record.append({"round": number, "test_accuracy": accuracy})
    if result:
        done = {"id": record.folder.name, "algo": algo, "rounds": len(accuracies), "final": accuracies[-1]}
        facts = {"model": {"name": "mlp", "parameters": 4810}, "data": {"source": "bundled"}}
        record.finish(made_result(**done, **facts))
    record.close()
    return record.folder


@pytest.fixture
def runs(tmp_path):
    folders = [
        make(tmp_path / "runs", "fedavg", 0, [0.2, 0.5]),
        make(tmp_path / "runs", "fedprox", 0, [0.3, None, 0.6], mu=0.1),
        make(tmp_path / "runs", "fedprox", 1, [0.4], mu=0.5),
        make(tmp_path / "runs", "fedavg", 1, [0.1], result=False),
    ]
    return tmp_path / "runs", folders


def test_a_run_is_a_row_of_its_keys_and_its_result(runs):
    out, folders = runs
    table, _ = load(out)
    assert list(table["id"]) == [folder.name for folder in folders]
    assert list(table["folder"]) == [str(folder) for folder in folders]
    assert list(table["status"]) == ["finished"] * 3 + ["interrupted"]
    assert list(table["algo"]) == ["fedavg", "fedprox", "fedprox", "fedavg"]
    assert list(table["final_accuracy"])[:3] == [0.5, 0.6, 0.4] and math.isnan(table["final_accuracy"][3])
    assert list(table["algo.mu"])[1:3] == [0.1, 0.5] and math.isnan(table["algo.mu"][0])
    assert set(table["model.hidden"]) == {(64,)}
    assert {"model.parameters", "data.source", "protocol", "scale", "group"} <= set(table.columns)
    assert not [name for name in table.columns if "_target_" in name]


def test_what_was_asked_for_keeps_its_name_beside_what_was_done(runs):
    table, _ = load(runs[0], status="finished")
    assert list(table["rounds"]) == [9, 9, 9]
    assert list(table["result.rounds"]) == [2, 3, 1]
    assert "result.algo" not in table.columns


def test_a_round_is_a_row_that_names_its_run(runs):
    table, rounds = load(runs[0], algo="fedprox")
    assert set(rounds["id"]) == set(table["id"]) and len(table) == 2
    assert list(rounds["round"]) == [1, 2, 3, 1]
    assert list(rounds["seed"]) == [0, 0, 0, 1]
    assert list(rounds["algo"].unique()) == ["fedprox"] and list(rounds["dataset"].unique()) == ["digits"]
    assert rounds["test_accuracy"].isna().tolist() == [False, True, False, False]
    assert list(rounds.merge(table[["id", "algo.mu"]], on="id")["algo.mu"]) == [0.1, 0.1, 0.1, 0.5]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"seed": 0}, 2),
        ({"algo": ["fedavg", "fedprox"], "seed": [1]}, 2),
        ({"algo.mu": 0.5}, 1),
        ({"group": "g"}, 4),
        ({"dataset": ["digits", "mnist"], "status": "finished"}, 3),
    ],
)
def test_filters_keep_the_runs_with_one_of_the_values(runs, wanted, found):
    table, rounds = load(runs[0], **wanted)
    assert len(table) == found == rounds["id"].nunique()
    assert list(table.index) == list(range(found))


def test_a_filter_that_keeps_nothing_says_what_there_is(runs, tmp_path):
    with pytest.raises(UserError, match=r"has algo=fedlc; there are fedavg, fedprox"):
        load(runs[0], algo="fedlc")
    with pytest.raises(UserError, match=r"Unknown column 'alg', nearest: algo"):
        load(runs[0], alg="fedavg")
    with pytest.raises(UserError, match=r"There are no runs in .*python bench\.py"):
        load(tmp_path / "nothing")


def test_pandas_is_imported_by_load_only():
    code = "import sys, bench.record; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

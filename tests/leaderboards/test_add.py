"""python -m leaderboards add: what may become a committed result, and what plan it is a run of."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from bench import record
from bench.errors import UserError
from bench.metrics import ACCURACY
from bench.output import digests, versions
from bench.output.outcome import outcome
from bench.output.result import RunResult
from bench.output.versions import Added, Renamed
from bench.prepare import compose
from bench.record import Record
from leaderboards import __main__ as command
from leaderboards import results
from leaderboards.add import add, add_what_may, refuse
from leaderboards.measure import Shelf
from leaderboards.plans import cell

REVISION = "a" * 40
TABLE_V = ("algo=fedavg", "dataset=fmnist", "protocol=fedlga", "scale=paper")


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """Makes a run folder as bench.py leaves it, of any command line, with invented rows."""
    monkeypatch.setattr(record, "git_revision", lambda: REVISION)

    def make(*overrides, group=None, **changes):
        config = compose.config([*overrides, f"out={tmp_path / 'runs'}"]) | {"group": group}
        writer = Record.create(config)
        columns = ("virtual_seconds", "wall_seconds", "train_loss", "test_loss", "train_seconds", "aggregate_seconds")
        for t in (1, 2, 3):
            row = {"round": t, "test_accuracy": None if t == 2 else 0.25 * t, "bytes_up": 10 * t, "bytes_down": 20 * t}
            whole = {"bytes_peer": 0, "version": t, "gradient_evaluations": 5 * t}
            writer.append(row | whole | dict.fromkeys(columns, t / 3))
        result = {
            **{"id": writer.folder.name, **outcome(config, writer.rows, ACCURACY)},
            **{"data": {"source": "Debian dataset-fashion-mnist", "classes": 10}, "weights_sha256": "w"},
            **{"git_revision": REVISION},
        }
        writer.finish(RunResult(**result | changes))
        writer.close()
        return writer.folder

    return make


def rewrite(folder, **changes):
    path = folder / "config.yaml"
    content = yaml.safe_load(path.read_text()) | changes
    del content["sha256"]
    path.write_text(digests.signed(yaml.safe_dump(content)))
    (folder / digests.LIST).write_text(digests.listing(digests.sums(folder, record.FILES)))


def test_a_run_of_a_plan_becomes_a_small_file_named_by_its_config(finished, tmp_path):
    folder = finished(*TABLE_V, "seed=1")
    [(result, fate)] = add([folder], tmp_path / "results")
    path = tmp_path / "results" / f"{result.name}.json"
    assert fate == "added" and path.stat().st_size < 6000
    assert len(path.stem) == 16
    text = json.loads(path.read_text())
    assert text["rows"]["test_accuracy"] == [0.25, None, 0.75]
    assert text["rows"]["bytes_down"] == [20, 40, 60]
    assert results.load(tmp_path / "results") == (result,)
    assert "out" not in text["config"] and "logger" not in text["config"] and text["config"]["seed"] == 1


def test_the_name_depends_on_what_shapes_training_and_on_nothing_else(finished):
    names = [
        results.name_of(record.read(finished(*TABLE_V, *more)).config)
        for more in ([], ["checkpoint_seconds=5"], ["logger=none"], ["seed=3"], ["lr=0.1"], ["algo=fedprox"])
    ]
    assert names[0] == names[1] == names[2]
    assert len({*names}) == 4


def test_committed_results_have_the_names_that_their_commands_get_today():
    kept = [run for run in results.committed() if run.command.startswith("python bench.py algo=")][::40]
    configs = compose.configs(shlex.split(run.command)[2:] for run in kept)
    assert len(kept) > 5 and [results.name_of(config) for config in configs] == [run.name for run in kept]


def test_a_key_that_comes_later_changes_no_name_unless_it_is_set(finished, tmp_path, monkeypatch):
    [(kept, _)] = add([finished(*TABLE_V)], tmp_path / "results")
    number = versions.FORMAT + 1
    later = (
        Added(number, "devices.jitter", 0.0),
        Added(number, "server.rule", None),
        Added(number, "privacy.name", "none"),
        Renamed(number, "weighting", "uniform", "equal"),
    )
    monkeypatch.setattr(versions, "CONFIG", (*versions.CONFIG, *later))
    monkeypatch.setattr(versions, "FORMAT", number)
    [read] = results.load(tmp_path / "results")
    assert read.config["devices"]["jitter"] == 0.0 and read.config["weighting"] == "equal"
    assert results.name_of(read.config) == read.name == kept.name
    shaky = {**read.config, "devices": {**read.config["devices"], "jitter": 0.1}}
    assert results.name_of(shaky) not in (kept.name, results.name_of({**shaky, "seed": 8}))


def test_the_result_of_a_newer_version_is_refused(finished, tmp_path):
    [(kept, _)] = add([finished(*TABLE_V)], tmp_path / "results")
    path = tmp_path / "results" / f"{kept.name}.json"
    path.write_text(path.read_text().replace(f'"format": {versions.FORMAT},', '"format": 99,', 1))
    with pytest.raises(UserError, match="written by a newer version of fedbench"):
        results.load(tmp_path / "results")


def test_tables_v_and_vi_of_fedlga_share_their_runs(finished, tmp_path):
    [(result, _)] = add([finished(*TABLE_V)], tmp_path / "results")
    found = {(p.sweep, p.setting, p.scale) for p in result.plan}
    assert {
        ("fedlga/table5", "rho=0.5;tau_max=E-1;E=5", "paper"),
        ("fedlga/table6", "rho=0.5;tau_max=0.8E;E=5", "paper"),
        ("fedlga/variations", "eta_l=0.005", "paper"),
    } <= found
    wanted = cell("fedlga", "fedavg", "fmnist", "rho=0.5")
    assert [len(p.by_seed) for p in Shelf([result]).points(wanted, "Table VI")] == [1]


def test_another_rate_is_another_cell(finished, tmp_path):
    [(result, _)] = add([finished(*TABLE_V, "lr=0.01")], tmp_path / "results")
    assert ("fedlga/variations", "eta_l=0.01") in {(p.sweep, p.setting) for p in result.plan}
    assert not {p.sweep for p in result.plan} & {"fedlga/table5", "fedlga/table6"}


def test_a_run_that_departs_from_its_sweep_says_in_what(finished, tmp_path):
    folder = finished(*TABLE_V, "rounds=60", group="fedlga/table5")
    [(result, _)] = add([folder], tmp_path / "results")
    [planned] = result.plan
    assert (planned.sweep, planned.scale, planned.differs) == ("fedlga/table5", "other", {"rounds": (200, 60)})


def test_the_cpu_scale_of_a_plan_is_no_departure_but_not_the_papers(finished, tmp_path):
    words = ("algo=fedavg", "dataset=gtsrb", "protocol=fed2a", "scale=cpu")
    [(result, _)] = add([finished(*words)], tmp_path / "results")
    planned = next(p for p in result.plan if (p.sweep, p.setting) == ("fed2a/table4", "R=300"))
    assert planned.scale == "cpu"
    assert planned.differs["model.channels"] == ([64, 128], [8, 16]) and planned.differs["lr"] == (0.003, 0.05)
    assert "rounds" not in planned.differs


def test_a_run_of_no_plan_is_refused(finished, tmp_path):
    with pytest.raises(UserError, match=r"no run of a plan in sweeps/"):
        add([finished(*TABLE_V, "rounds=61")], tmp_path / "results")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"git_revision": f"{REVISION}-dirty"}, "not committed"),
        ({"git_revision": "b" * 40}, "begun by aaaaaaaaaaaa and ended by bbbbbbbbbbbb"),
        ({"git_revision": None}, "does not say which commit"),
        ({"data": {"source": "synthetic, 600 samples"}}, "synthetic data"),
        ({"data": {}}, "synthetic data"),
        ({"rounds": 4}, "3 rows in metrics.csv"),
        ({"seed": 7}, "different runs"),
        ({"final": 0.9999}, "has final_accuracy 0.9999 in result.json, but 0.75 by metrics.csv"),
        ({"best": 0.76}, "has best_accuracy 0.76"),
        ({"rounds_to_target": 1}, "has rounds_to_target 1 in result.json, but 3"),
        ({"seconds_per_round": 0.001}, "has seconds_per_round"),
        ({"upload_bytes": 1}, "has upload_bytes 1 in result.json, but 30"),
        ({"scale": "cpu"}, "has scale cpu in result.json, but paper"),
    ],
)
def test_what_may_not_last_is_refused(finished, changes, reason):
    with pytest.raises(UserError, match=reason):
        refuse(record.read(finished(*TABLE_V, **changes)))


def test_begun_by_uncommitted_code_is_refused_too(finished):
    folder = finished(*TABLE_V)
    rewrite(folder, git_revision=f"{REVISION}-dirty")
    with pytest.raises(UserError, match="not committed"):
        refuse(record.read(folder))


def test_smoke_scale_and_unfinished_runs_are_refused(finished):
    with pytest.raises(UserError, match="scale=smoke"):
        refuse(record.read(finished(*TABLE_V[:3], "scale=smoke")))
    folder = finished(*TABLE_V)
    (folder / "result.json").unlink()
    with pytest.raises(UserError, match=r"interrupted: only a finished run .* resume="):
        refuse(record.read(folder))


def test_nothing_is_written_if_one_of_several_is_refused(finished, tmp_path):
    with pytest.raises(UserError):
        add([finished(*TABLE_V), finished(*TABLE_V, "seed=1", rounds=9)], tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_what_is_refused_is_skipped_and_listed(finished, tmp_path, monkeypatch, capsys):
    first, bad, begun = finished(*TABLE_V), finished(*TABLE_V, "seed=1", rounds=9), finished(*TABLE_V, "seed=2")
    (begun / "result.json").unlink()
    (damaged := first.parent / "damaged").mkdir()
    (damaged / "config.yaml").write_text("[")
    monkeypatch.setattr(sys, "argv", ["leaderboards", "add", str(first.parent)])
    monkeypatch.setattr("leaderboards.add.add_what_may.__defaults__", (tmp_path / "results", False))
    assert command.main() == 1
    out, err = capsys.readouterr()
    assert out.count("added  results/") == 1 and [r.result.id for r in results.load(tmp_path / "results")] == [
        first.name
    ]
    assert "Not added, 3 of 4:" in err and "3 rows in metrics.csv" in err
    assert f"{begun} is interrupted" in err and f"{damaged} is not the folder of a run" in err
    monkeypatch.setattr(sys, "argv", ["leaderboards", "add", str(bad), str(begun)])
    assert command.main() == 2 and "Not added, 2 of 2:" in capsys.readouterr().err


def test_a_sweeps_folder_stands_for_its_runs(finished, tmp_path):
    mine, _ = finished(*TABLE_V), finished(*TABLE_V, "seed=1")
    folder = mine.parent / "fedlga-table5-dataset=fmnist"
    folder.mkdir()
    (folder / "results.csv").write_text(f"method,seed,id\nfedavg,0,{mine.name}\nfedavg,0,{mine.name}\nfedavg,2,gone\n")
    added, refused = add_what_may([folder], tmp_path / "results")
    assert [result.result.id for result, _ in added] == [mine.name]
    assert len(refused) == 1 and "gone is not the folder of a run" in refused[0]


def test_adding_again_changes_nothing_and_another_outcome_is_refused(finished, tmp_path):
    add([finished(*TABLE_V)], tmp_path / "results")
    [(_, fate)] = add([finished(*TABLE_V)], tmp_path / "results")
    assert fate == "there already"
    with pytest.raises(UserError, match="same config and another outcome"):
        add([finished(*TABLE_V, weights_sha256="v")], tmp_path / "results")


@pytest.mark.parametrize(("weights", "words"), [("w", "the same weights"), ("v", "other weights")])
def test_a_result_gives_way_to_a_new_run_where_that_is_asked_for(finished, tmp_path, weights, words):
    add([finished(*TABLE_V), finished(*TABLE_V, "seed=1")], tmp_path / "results")
    anew = finished(*TABLE_V, weights_sha256=weights)
    [(result, fate)] = add([anew], tmp_path / "results", replace=True)
    assert fate == f"replaced, {words}"
    kept = {run.seed: run.result for run in results.load(tmp_path / "results")}
    assert kept[0].id == result.result.id == anew.name and kept[0].weights_sha256 == weights and len(kept) == 2


def test_an_edited_or_renamed_result_is_noticed(finished, tmp_path):
    [(result, _)] = add([finished(*TABLE_V)], tmp_path / "results")
    path = tmp_path / "results" / f"{result.name}.json"
    text = path.read_text()
    path.write_text(text.replace('"lr": 0.005', '"lr": 0.006'))
    with pytest.raises(UserError, match="edited or renamed"):
        results.load(tmp_path / "results")
    path.write_text(text.replace("[0.25,null,0.75]", "[0.25,0.75]"))
    with pytest.raises(UserError, match="columns of"):
        results.load(tmp_path / "results")
    path.write_text(text.replace('"rounds_to_target": 3', '"rounds_to_target": 1'))
    with pytest.raises(UserError, match="says rounds_to_target 1, its rows 3"):
        results.load(tmp_path / "results")
    path.write_text(text.replace('"weights_sha256": "w"', '"weights_sha256": "v"'))
    with pytest.raises(UserError, match=f"{result.name}.json is not as it was written"):
        results.load(tmp_path / "results")
    path.write_text(text[:-20])
    with pytest.raises(UserError, match="not readable JSON"):
        results.load(tmp_path / "results")
    results.write(replace(result, name="0" * 16), tmp_path / "results")
    path.unlink()
    with pytest.raises(UserError, match="edited or renamed"):
        results.load(tmp_path / "results")


def test_the_verb_says_what_was_added(finished, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["leaderboards", "add", str(finished(*TABLE_V))])
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")
    monkeypatch.setattr("leaderboards.add.add_what_may.__defaults__", (tmp_path / "results", False))
    assert command.main() == 0
    out = capsys.readouterr().out
    assert out.startswith("added  results/") and "fedlga/table5 fedavg (rho=0.5;tau_max=E-1;E=5), scale paper" in out
    monkeypatch.setattr(sys, "argv", ["leaderboards", "add", "nowhere"])
    assert command.main() == 2
    assert "is not the folder of a run" in capsys.readouterr().err


def test_committed_results_are_readable_and_real():
    assert len(results.committed()) >= 296  # by their names of format 1
    for result in results.committed():
        assert "dirty" not in result.result.git_revision
        assert "synthetic" not in result.result.data["source"].lower()
        assert Path(results.FOLDER / f"{result.name}.json").stat().st_size < 100_000

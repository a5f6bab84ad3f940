"""Records of every format are read, replayed and resumed to the bits they would have ended with."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
import yaml

from bench.__main__ import main
from bench.main import command
from bench.output import facts, versions
from bench.output.versions import FORMAT, Added, Renamed, upgrade_checkpoint, upgraded
from bench.record import load, read
from bench.simulation.learned import Learned

FIXTURES = Path(__file__).parents[1] / "fixtures"
STOPPED = ("synchronous", "buffered", "mail", "engine")
FORMATS = [  # the first one and the latest always
    pytest.param(f"format_{number}", marks=[pytest.mark.slow] * (1 < number < FORMAT))
    for number in range(1, FORMAT + 1)
]


@pytest.fixture(params=FORMATS)
def kept(request, tmp_path):
    shutil.copytree(FIXTURES / request.param, tmp_path / "runs")
    return tmp_path / "runs"


def _here(expected):
    """Another machine may round differently."""
    return (expected["machine"], expected["versions"]) == (facts.machine(), facts.versions())


def checkpoint(folder):
    return torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)["federation"]


@pytest.mark.parametrize("name", STOPPED)
def test_a_stopped_run_ends_as_if_nobody_had_stopped_it(kept, name):
    folder = kept / name
    expected = json.loads((folder / "expected.json").read_text())
    assert command([f"resume={folder}"]) == 0
    result = read(folder).result
    assert result.rounds == 12 and math.isclose(result.final_loss, expected["final_loss"], rel_tol=1e-4)
    if _here(expected):
        assert result.weights_sha256 == expected["weights_sha256"]


def test_the_checkpoints_hold_what_can_change_between_versions(kept):
    states = {name: checkpoint(kept / name)["loop"] for name in STOPPED}
    assert states["buffered"]["arrived"] and any(job["start"] is not None for job in states["buffered"]["jobs"])
    assert states["mail"]["mail"]["posted"] and states["mail"]["mail"]["inbox"]


def test_a_finished_run_is_replayed_and_loaded(kept, capsys):
    same = _here(json.loads((kept / "finished" / "expected.json").read_text()))
    assert main(["replay", str(kept / "finished")]) in ((0,) if same else (0, 1))
    table, rounds = load(kept)
    assert len(table) == 1 + len(STOPPED) and len(rounds) == 12 + 5 * len(STOPPED)
    assert set(table["engine"]) == {"native", "vmap"}
    assert "format" not in table.columns


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
def test_each_fixture_is_of_its_format(number):
    for folder in (FIXTURES / f"format_{number}").iterdir():
        assert yaml.safe_load((folder / "config.yaml").read_text()).get("format", 1) == number
        if folder.name in STOPPED:
            assert checkpoint(folder).get("format", 1) == number


@pytest.mark.parametrize("what", ["config.yaml", "result.json", "checkpoint"])
def test_what_a_newer_version_wrote_is_refused_in_a_sentence(what, tmp_path, capsys):
    name = "buffered" if what == "checkpoint" else "finished"
    folder = tmp_path / name
    shutil.copytree(FIXTURES / "format_1" / name, folder)
    if what == "checkpoint":
        path = folder / "checkpoints" / "last.ckpt"
        content = torch.load(path, weights_only=True)
        content["federation"]["format"] = FORMAT + 1
        torch.save(content, path)
        code = command([f"resume={folder}"])
    else:  # YAML reads JSON
        path = folder / what
        path.write_text(json.dumps({**yaml.safe_load(path.read_text()), "format": FORMAT + 1}, default=str))
        code = main(["replay", str(folder)])
    text = capsys.readouterr().err
    assert code == 2 and f"{path} was written by a newer version of fedbench (format {FORMAT + 1}" in text
    assert "Traceback" not in text


TABLE = (
    Renamed(2, "weighting", "size", "samples"),
    Added(3, "devices.jitter", 0.0),
    Added(3, "algo.beta", 0.9, option="fedlga"),
    Added(3, "privacy.name", "none"),
)


def test_keys_that_came_later_get_their_default_and_values_their_name(monkeypatch):
    monkeypatch.setattr(versions, "FORMAT", 3)
    old = {"algo": {"name": "fedlga"}, "devices": {"name": "mixed"}, "weighting": "size"}
    new = {"algo": {"name": "fedlga", "beta": 0.9}, "devices": {"name": "mixed", "jitter": 0.0}}
    new |= {"privacy": {"name": "none"}}
    assert upgraded(old, TABLE, "x") == {**new, "weighting": "samples"}
    assert upgraded({**old, "format": 2}, TABLE, "x") == {**new, "weighting": "size"}
    assert upgraded({**old, "algo": {"name": "fedavg"}}, TABLE, "x")["algo"] == {"name": "fedavg"}
    assert old["devices"] == {"name": "mixed"}


def test_what_a_job_had_learned_in_the_first_format_is_a_row_now():
    result = {"delta": torch.ones(2), "end": None, "extra": {"c": torch.zeros(2)}, "mine": {}, "gradient": None}
    result |= {"steps": 3.0, "units": 4.0, "lr_sum": 0.5, "loss": 0.25, "finite": True, "evaluations": 6}
    job = {"dispatch": 7, "started": True}
    state = upgrade_checkpoint({"jobs": [{**job, "result": None}], "arrived": [{**job, "result": result}]}, 1)
    assert state["jobs"] == [{"number": 7, "trainable": True, "learned": None}]
    learned = Learned(**state["arrived"][0]["learned"])
    columns = (learned.steps, learned.effective_steps, learned.lr_sum, learned.loss, learned.evaluations)
    assert [column.tolist() for column in columns] == [[3.0], [4.0], [0.5], [0.25], [6]]
    assert learned.delta.shape == learned.extra["c"].shape == (1, 2)

"""A run of FedAvg ahead of the run: FedAgg's mean_field=prerun asks for its traces."""

import json
import signal

import numpy as np
import pytest
import torch

from bench.commands import replay
from bench.errors import UserError
from bench.prepare import compose, prerun
from bench.prepare.assemble import build
from bench.record import read, read_all
from bench.run import run
from bench.simulation.loop import FederatedLoop

TRACE = (2 * 2 + 1) * 4810 + 3  # numbers of a round: three models and two gradients of the perceptron, and counts


def config(out, *overrides, algo=("algo=fedagg", "algo.mean_field=prerun")):
    keys = ["dataset=digits", "clients=6", "cohort=3", "epochs=2", "rounds=4", "batch_size=40", "devices.rho=0.5"]
    keys += ["logger=none", f"out={out}"]
    return compose.config([*keys, *algo, *overrides])


@pytest.fixture
def made(monkeypatch):
    """One entry for each pre-run that is made."""
    found, write = [], prerun._write

    def counted(loop, file):
        found.append(file)
        return write(loop, file)

    monkeypatch.setattr(prerun, "_write", counted)
    return found


def stop_at(monkeypatch, algo, round):
    advance = FederatedLoop.advance

    def stopping(loop):
        if type(loop.algo.method).__name__ == algo and loop.round == round:
            signal.raise_signal(signal.SIGINT)
        return advance(loop)

    monkeypatch.setattr(FederatedLoop, "advance", stopping)


def interrupted(out, monkeypatch, algo, round):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        stop_at(patch, algo, round)
        run(config(out))
    (found,) = read_all(out)
    assert found.status == "interrupted"
    return found


def test_traces_are_mapped_from_a_file_in_the_runs_folder(tmp_path, made):
    folder = tmp_path / "runs"
    folder.mkdir()
    parts, plain = build(config(folder), lambda _: folder), build(config(folder))
    assert {file.name for file in folder.iterdir()} == {"prerun.bin", "prerun.json"}
    assert (folder / "prerun.bin").stat().st_size == parts.prerun.cost["disk_bytes"] == 4 * 4 * TRACE
    assert isinstance(parts.prerun._rows, np.memmap)
    assert not parts.prerun._rows.flags.writeable
    for version in range(4):
        mapped, kept = parts.loop.fed.trace(version), plain.loop.fed.trace(version)
        for name in ("w", "gradient", "reached"):
            assert torch.equal(getattr(mapped, name), getattr(kept, name))
    assert len(made) == 2
    build(config(folder), lambda _: folder)
    assert len(made) == 2


def test_the_record_says_what_the_pre_run_cost(tmp_path):
    result = run(config(tmp_path / "runs"))
    plain = run(config(tmp_path / "runs", algo=["algo=fedavg"]))
    cost = result.prerun
    assert cost.pop("seconds") > 0
    assert cost == {
        "gradient_evaluations": plain.gradient_evaluations,
        "bytes_up": plain.upload_bytes,
        "bytes_down": plain.download_bytes,
        "virtual_seconds": plain.virtual_seconds,
        "disk_bytes": 4 * 4 * TRACE,
    }
    assert plain.prerun is None
    assert [file.name for file in tmp_path.iterdir()] == ["runs"]
    assert not list(tmp_path.rglob("prerun.bin*"))  # nobody needs it any more


def test_a_resumed_run_uses_the_traces_it_has_and_ends_bit_for_bit_the_same(tmp_path, monkeypatch, made):
    whole = run(config(tmp_path / "whole"))
    found = interrupted(tmp_path / "runs", monkeypatch, "FedAgg", 2)
    cost = json.loads((found.folder / "prerun.json").read_text())["cost"]
    assert len(made) == 2
    result = run(found.config, resume=found.folder)
    assert len(made) == 2
    assert result.prerun == cost
    assert result.weights_sha256 == whole.weights_sha256
    assert result.gradient_evaluations == whole.gradient_evaluations


def cut(folder):
    path = folder / "prerun.bin"
    path.write_bytes(path.read_bytes()[:-4])


def flip(folder):
    path = folder / "prerun.bin"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [cut, flip, lambda f: (f / "prerun.json").write_text("{}"), lambda f: (f / "prerun.json").unlink()],
    ids=["cut", "flipped", "other facts", "no facts"],
)
def test_traces_that_are_not_whole_are_made_again(tmp_path, monkeypatch, made, damage):
    found = interrupted(tmp_path / "runs", monkeypatch, "FedAgg", 2)
    damage(found.folder)
    result = run(found.config, resume=found.folder)
    assert len(made) == 2
    assert result.weights_sha256 == run(config(tmp_path / "whole")).weights_sha256


def test_a_run_that_is_stopped_in_its_pre_run_resumes(tmp_path, monkeypatch, made, capsys):
    found = interrupted(tmp_path / "runs", monkeypatch, "Recorder", 2)
    assert f"resume={found.folder}" in capsys.readouterr().out
    assert not (found.folder / "prerun.bin").exists()
    result = run(found.config, resume=found.folder)
    assert len(made) == 2
    assert result.weights_sha256 == run(config(tmp_path / "whole")).weights_sha256


def test_replay_makes_the_pre_run_itself_and_leaves_nothing(tmp_path, made, capsys):
    run(config(tmp_path / "runs"))
    (found,) = read_all(tmp_path / "runs")
    before = {file.name for file in found.folder.iterdir()}
    assert replay.main([str(found.folder)]) == 0
    assert "identical" in capsys.readouterr().out
    assert len(made) == 2
    assert {file.name for file in found.folder.iterdir()} == before


def test_too_little_time_for_a_round_of_the_pre_run_is_said(tmp_path):
    with pytest.raises(UserError, match="virtual_seconds"):
        run(config(tmp_path / "runs", "virtual_seconds=1e-9"))


def test_a_full_disk_is_said_in_a_sentence(tmp_path, monkeypatch):
    def full(loop, file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(prerun, "_write", full)
    with pytest.raises(UserError, match=r"prerun\.bin: No space left"):
        run(config(tmp_path / "runs"))
    (found,) = read_all(tmp_path / "runs")
    assert not list(found.folder.glob("prerun.bin*"))
    assert read(found.folder).status == "interrupted"

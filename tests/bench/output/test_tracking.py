"""W&B beside a run: its helper killed, its server away, and whatever else it raises, cost the run a warning."""

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest

from bench.errors import UserError
from bench.output import tracking
from bench.output.tracking import Tracker
from bench.prepare import compose
from bench.record import read_all
from bench.run import run
from tests.patience import until


def config(tmp_path, *overrides):
    keys = ["dataset=digits", "clients=6", "cohort=3", "epochs=1", "rounds=6", f"out={tmp_path / 'runs'}"]
    return compose.config([*keys, *overrides])


class Broken:
    """A W&B run whose helper is gone."""

    def __init__(self):
        self.asked = 0

    def log(self, values):
        self.asked += 1
        raise BrokenPipeError("[Errno 32] Broken pipe")

    def finish(self, exit_code):
        raise AssertionError("it was given up")


def test_whatever_wandb_raises_is_one_warning_and_the_run_is_the_same(tmp_path, monkeypatch, capsys):
    plain = run(config(tmp_path, "logger=none"))
    broken = Broken()
    monkeypatch.setattr(tracking, "start", lambda config, folder: Tracker(lambda: broken))
    monkeypatch.setattr(tracking, "give_up", lambda: None)
    result = run(config(tmp_path, "logger=wandb"))
    err = capsys.readouterr().err
    assert result.weights_sha256 == plain.weights_sha256 and broken.asked == 1
    assert [line for line in err.splitlines() if "warning" in line] == [
        "warning: W&B stopped ([Errno 32] Broken pipe): the run goes on without it, and its record is whole."
    ]
    assert [len(found.rows) for found in read_all(tmp_path / "runs")] == [6, 6]


class Slow:
    """A W&B run that began only when `rounds` of the run were over, and what it was told."""

    def __init__(self, rounds):
        self.rounds, self.over, self.told = rounds, Event(), []
        self.summary = {}

    def on_round(self, number, accuracy):
        if number == self.rounds:
            self.over.set()

    def begin(self, **given):
        assert self.over.wait(60)
        return self

    def log(self, values):
        self.told.append(values.get("round", "table"))

    def finish(self, exit_code):
        self.told.append(f"exit {exit_code}")


def test_wandb_starts_while_rounds_are_trained_and_is_told_all_of_them(tmp_path, monkeypatch):
    slow = Slow(rounds=3)
    monkeypatch.setattr(tracking, "begin", slow.begin)
    result = run(config(tmp_path, "logger=wandb"), on_round=slow.on_round)
    assert slow.told == [1, 2, 3, 4, 5, 6, "table", "exit 0"]
    assert slow.summary == result.to_dict()


def fail():
    raise RuntimeError


@pytest.mark.parametrize("end", [lambda: os.kill(os.getpid(), signal.SIGINT), fail], ids=["stopped", "failed"])
def test_a_run_that_ends_before_wandb_has_begun_is_told_it_as_far_as_it_came(end, tmp_path, monkeypatch):
    slow = Slow(rounds=2)
    monkeypatch.setattr(tracking, "begin", slow.begin)

    def on_round(number, accuracy):
        slow.on_round(number, accuracy)
        if number == 2:
            end()

    with pytest.raises((KeyboardInterrupt, RuntimeError)):
        run(config(tmp_path, "logger=wandb"), on_round=on_round)
    assert slow.told == [1, 2, "exit 1"]


@pytest.mark.parametrize("mode", ["wandb", "wandb_online"])
def test_a_wandb_that_does_not_start_is_one_warning(mode, tmp_path, monkeypatch, capsys):
    modes = []

    def begin(**given):
        modes.append(given["mode"])
        raise TimeoutError("no helper")

    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setattr(tracking, "begin", begin)
    monkeypatch.setattr(tracking, "give_up", lambda: None)
    assert run(config(tmp_path, "rounds=1", f"logger={mode}")).rounds == 1
    err = capsys.readouterr().err
    assert err.count("warning") == 1 and "W&B does not start (no helper)" in err
    assert modes == (["offline"] if mode == "wandb" else ["online", "offline"])


def test_wandb_stays_offline_silent_and_inside_the_folder(tmp_path, monkeypatch, capfd):
    for name in ("home", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for key, value in {"HOME": tmp_path / "home", "WANDB_CACHE_DIR": "", "WANDB_DATA_DIR": ""}.items():
        monkeypatch.setenv(key, str(value))
    result = run(config(tmp_path, "rounds=2", "logger=wandb") | {"group": "many"})
    out, err = capfd.readouterr()
    assert "wandb:" not in out + err and "W&B" not in out + err
    assert not list((tmp_path / "home").iterdir()) and not list((tmp_path / "here").iterdir())
    (found,) = read_all(tmp_path / "runs")
    (log,) = found.folder.glob(f"wandb/offline-run-*/run-{found.id}.wandb")
    for text in (result.weights_sha256, found.id, "many", "test_accuracy", "weights_sha256", "batch_size"):
        assert until(lambda text=text: text.encode() in log.read_bytes())  # W&B's process writes after the run's end
    (table,) = found.folder.glob("wandb/offline-run-*/files/media/table/results*.json")
    columns, (row,) = (json.loads(table.read_text())[key] for key in ("columns", "data"))
    assert dict(zip(columns, row, strict=True))["final_accuracy"] == result.final


def test_online_needs_a_key(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("WANDB_API_KEY", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="WANDB_API_KEY"):
        run(config(tmp_path, "logger=wandb_online"))
    assert not (tmp_path / "runs").exists()


def helper():
    """The number of the helper process that wandb started from this one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):  # started by whichever thread
        with suppress(OSError):
            name, rest = entry.read_text().rsplit(")", 1)
            if "wandb-core" in name and rest.split()[1] == str(os.getpid()) and rest.split()[0] != "Z":
                found.append(entry.parent.name)
    (number,) = found
    return int(number)


@pytest.mark.slow
def test_a_killed_helper_does_not_end_the_run_and_the_next_run_has_a_new_one(tmp_path, monkeypatch, capfd):
    plain = run(config(tmp_path, "logger=none"))
    begin, begun = tracking.begin, Event()

    def seen(**given):
        made = begin(**given)
        begun.set()
        return made

    monkeypatch.setattr(tracking, "begin", seen)

    def kill(number, accuracy):
        if number == 2:
            assert begun.wait(60)
            os.kill(helper(), signal.SIGKILL)
            time.sleep(1)

    result = run(config(tmp_path, "logger=wandb"), on_round=kill)
    err = capfd.readouterr().err
    assert result.weights_sha256 == plain.weights_sha256
    assert err.count("warning: W&B stopped") == 1 and "Traceback" not in err, err
    again = run(config(tmp_path, "logger=wandb"))
    assert "W&B" not in capfd.readouterr().err
    folder = tmp_path / "runs" / again.id
    assert list(folder.glob(f"wandb/offline-run-*/run-{again.id}.wandb"))


@pytest.mark.slow
def test_an_unreachable_server_costs_seconds_and_the_run_is_logged_offline(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    began = time.monotonic()
    result = run(config(tmp_path, "logger=wandb_online"))
    assert time.monotonic() - began < 40
    err = capfd.readouterr().err
    assert result.rounds == 6 and err.count("warning: W&B does not answer") == 1 and "wandb sync" in err, err
    assert "Traceback" not in err
    assert list((tmp_path / "runs" / result.id).glob("wandb/offline-run-*/*.wandb"))

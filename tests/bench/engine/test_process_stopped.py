"""A worker process that is stopped (SIGSTOP, a debugger): said after a while, then ended, and its part done again."""

import os
import signal

import pytest

from bench.engine import process
from bench.output import facts
from bench.prepare import compose
from bench.prepare.assemble import build
from tests.patience import until

KEYS = ["dataset=digits", "clients=12", "cohort=6", "rounds=2", "epochs=2", "logger=none"]


def weights(parts):
    while not parts.loop.finished:
        parts.loop.advance()
    parts.workers.close()
    return facts.digest(parts.loop.server["w"])


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(process, "LOOK_SECONDS", 0.05)


def test_a_stopped_workers_part_is_done_again_after_a_warning(quick, capfd):
    expected = weights(build(compose.config([*KEYS, "engine.workers=1"])))
    parts = build(compose.config([*KEYS, "engine.workers=2"]))
    (worker,) = parts.workers.workers
    pid = worker.process.pid
    os.kill(pid, signal.SIGSTOP)
    assert weights(parts) == expected
    first, second = capfd.readouterr().err.splitlines()
    assert first.startswith(f"warning: worker process {pid} does not answer") and "work done again" in first
    assert "1 of 2 go on" in second
    assert until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_a_worker_that_goes_on_in_time_is_kept(quick, capfd, monkeypatch):
    monkeypatch.setattr(process, "GIVEN_UP", 10_000)
    expected = weights(build(compose.config([*KEYS, "engine.workers=1"])))
    parts = build(compose.config([*KEYS, "engine.workers=2"]))
    (worker,) = parts.workers.workers
    pid = worker.process.pid
    os.kill(pid, signal.SIGSTOP)
    look = parts.workers._look

    def wake():
        look()
        if worker.still == process.STILL:
            os.kill(pid, signal.SIGCONT)

    monkeypatch.setattr(parts.workers, "_look", wake)
    assert weights(parts) == expected
    assert capfd.readouterr().err.count("\n") == 1

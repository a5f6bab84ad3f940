"""Worker processes: the same bits as one process, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch

from algorithms.base import Algorithm, LocalRule
from bench.commands import replay
from bench.engine.pool import cut
from bench.engine.shared import Arena
from bench.errors import UserError
from bench.main import command
from bench.output import facts
from bench.prepare import compose
from bench.prepare.assemble import build
from bench.record import TIMES, Record, read
from bench.run import run
from bench.simulation.loop import FederatedLoop
from tests.patience import until

ROOT = Path(__file__).parents[3]
SMALL = ["dataset=digits", "clients=12", "cohort=6", "rounds=2", "epochs=2", "devices.rho=0.5", "logger=none"]
METHODS = {
    "fedavg": [],
    "scaffold": ["momentum=0.5"],  # memory
    "fedagg": ["algo.update=aggregated"],  # trace
    "fedgh": ["partition=classes", "partition.per_client=3"],  # prototypes, models of the devices' own
    "fedbabu": [],  # fine-tuning before the test
    "fedasync": [],
    "fedlc": [],  # mail
}


def config(*keys):
    return compose.config([*SMALL, *keys])


@pytest.fixture
def parts():
    """Builds runs and closes their workers."""
    built = []

    def make(*keys):
        built.append(build(config(*keys)))
        return built[-1]

    yield make
    for each in built:
        each.workers.close()


def outcome(built):
    """The weights at the end, every round's row and the test figures."""
    rows = []
    while not built.loop.finished:
        rows.append({name: str(value) for name, value in built.loop.advance().items() if name not in TIMES})
    return facts.digest(built.loop.server["w"]), rows, built.evaluate(True)


def gone(pid):
    """No such process, not even a zombie."""
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("name", METHODS)
def test_the_number_of_workers_changes_no_bit(name, parts):
    keys = [f"algo={name}", *METHODS[name], "test_samples=100"]
    alone = parts(*keys, "engine.workers=1")
    assert alone.workers.count == 1
    expected = outcome(alone)
    for more in (["engine.workers=2", "engine.batch=4"], ["engine.workers=3"]):
        several = parts(*keys, *more)
        assert several.workers.count == int(more[0][-1])
        assert outcome(several) == expected, more


def test_a_test_set_of_many_chunks_gives_the_same_figures(parts, monkeypatch):
    monkeypatch.setattr("bench.learning.evaluate.CHUNK", 50)
    monkeypatch.setattr("bench.simulation.figures.WORTHWHILE", 0)
    alone, several = parts("engine.workers=1"), parts("engine.workers=3")
    assert alone.evaluate.evaluate.chunks == 8
    assert alone.evaluate(True) == several.evaluate(True)
    w = alone.loop.deployed()
    models = torch.stack([w, 3 * w, -w, -3 * w])  # no part is one whole model
    answers = [alone.evaluate.evaluate.answers(model) for model in models]
    monkeypatch.setattr(several.loop, "deployed", lambda: models)
    figures = several.evaluate(True)
    assert len(answers[0][1]) == 360
    assert figures["test_accuracy"] == pytest.approx(sum(float(right.double().mean()) for _, right in answers) / 4)
    assert figures["test_loss"] == pytest.approx(sum(loss for loss, _ in answers) / 4)


def test_traces_are_cut_into_small_parts_and_added_in_the_devices_order(parts, monkeypatch):
    expected = outcome(parts("algo=fedagg", "engine.workers=1"))
    monkeypatch.setattr("bench.engine.pool.TRACE_BYTES", 1)
    several, sizes = parts("algo=fedagg", "engine.workers=2"), []
    ask = several.workers.map

    def watch(name, calls):
        sizes.extend(len(call[2].client) for call in calls if name == "train")
        return ask(name, calls)

    monkeypatch.setattr(several.workers, "map", watch)
    assert outcome(several) == expected
    assert set(sizes) == {1}


def test_the_method_that_looks_ahead_runs_its_fedavg_on_the_workers_too(parts):
    keys = ["algo=fedagg", "algo.mean_field=prerun"]
    assert outcome(parts(*keys, "engine.workers=2")) == outcome(parts(*keys, "engine.workers=1"))


def test_a_killed_workers_part_is_done_again(parts, capfd):
    expected = outcome(parts("engine.workers=1"))
    several = parts("engine.workers=4")
    first, second, third = [worker.process.pid for worker in several.workers.workers]
    os.kill(first, signal.SIGSTOP)  # it is given a part and never answers
    give = several.workers._give

    def kill(*args):
        give(*args)
        for pid in (first, third):
            os.kill(pid, signal.SIGKILL)
        several.workers._give = give

    several.workers._give = kill
    assert outcome(several) == expected
    assert [worker.process.pid for worker in several.workers.workers] == [second]
    assert gone(first) and gone(third)
    err = capfd.readouterr().err
    assert err.count("\n") == 2 and err.count("exit code -9") == 2 and "2 of 4 go on" in err


def test_without_any_worker_left_the_run_goes_on(parts, capfd):
    expected = outcome(parts("engine.workers=1"))
    several = parts("engine.workers=2")
    for worker in several.workers.workers:
        os.kill(worker.process.pid, signal.SIGKILL)
    assert outcome(several) == expected
    assert "1 of 2 go on" in capfd.readouterr().err


@dataclass(frozen=True, kw_only=True)
class Careless(Algorithm):
    """Fails on the devices."""

    error: type[Exception] = ZeroDivisionError
    here: int = field(default_factory=os.getpid)

    def local(self, jobs, w, epoch, fed):
        if os.getpid() != self.here:
            raise self.error(f"no device likes {int(jobs.client[0])}")
        return LocalRule()


class Odd(Exception):
    """Cannot be sent."""

    def __init__(self, text):
        super().__init__(text, lambda: None)


@pytest.mark.parametrize(("error", "raised"), [(ZeroDivisionError, ZeroDivisionError), (Odd, RuntimeError)])
def test_an_error_in_a_worker_is_raised_here_with_its_traceback(error, raised, parts):
    several = parts("engine.workers=2")
    loop, good = several.loop, several.loop.algo
    loop.algo = loop.training.algo = Careless(error=error)
    with pytest.raises(raised) as caught:
        loop.advance()
    told = str(caught.value) + "\n".join(getattr(caught.value, "__notes__", []))
    assert "no device likes" in told and "In a worker process" in told
    assert 'raise self.error(f"no device likes' in told
    again = replace(
        several, loop=FederatedLoop(good, loop.fed, loop.engine, loop.devices, loop.rules, loop.server["w"])
    )
    assert outcome(again)[:2] == outcome(parts("engine.workers=1"))[:2]  # the workers that had failed go on


def test_closing_leaves_no_process_and_no_open_file(parts):
    build(config("engine.workers=1")).loop.advance()
    before = set(os.listdir("/proc/self/fd"))
    several = parts("engine.workers=2")
    several.loop.advance()
    pids = [worker.process.pid for worker in several.workers.workers]
    assert not any(gone(pid) for pid in pids)
    several.workers.close()
    assert all(gone(pid) for pid in pids)
    assert set(os.listdir("/proc/self/fd")) == before
    several.workers.close()  # a second time is no harm


def test_workers_of_a_build_that_nobody_keeps_end_with_it():
    import gc

    several = build(config("engine.workers=2"))
    pids = [worker.process.pid for worker in several.workers.workers]
    del several
    gc.collect()
    assert all(gone(pid) for pid in pids)


START = """
import torch
from types import SimpleNamespace
from bench.engine.process import Forked

class Service:
    engine = SimpleNamespace()  # is given what counts its steps

    def work(self, seed):
        w = torch.ones(500, 500)
        while True:
            w @ w

workers = Forked(Service(), 3)
print(*[worker.process.pid for worker in workers.workers], flush=True)
list(workers.map("work", [(0,), (1,), (2,)]))
"""


def test_workers_ignore_a_terminals_signals_and_end_when_their_parent_is_killed_while_they_work():
    program = subprocess.Popen(
        [sys.executable, "-c", START],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"},
    )
    try:
        pids = [int(pid) for pid in program.stdout.readline().split()]
        assert len(pids) == 2
        time.sleep(0.3)
        for pid in pids:
            os.kill(pid, signal.SIGINT)
            os.kill(pid, signal.SIGTERM)
        time.sleep(0.2)
        assert not any(gone(pid) for pid in pids)
        program.kill()
        program.wait()
        assert until(lambda: all(gone(pid) for pid in pids))
    finally:
        program.kill()
        program.wait()
        program.stdout.close()


def test_a_run_goes_on_with_another_number_of_workers(monkeypatch):
    keys = ["algo=scaffold", "rounds=4", "checkpoint_seconds=0"]
    expected = run(config(*keys, "engine.workers=1", "out=whole"))
    append = Record.append

    def stop(record, values):
        append(record, values)
        if len(record.rows) == 3:
            raise UserError("Stopped.")

    with monkeypatch.context() as patch, pytest.raises(UserError, match="Stopped"):
        patch.setattr(Record, "append", stop)
        run(config(*keys, "engine.workers=3", "out=stopped"))
    (folder,) = Path("stopped").iterdir()
    assert command([f"resume={folder}", "engine.workers=0"]) == 2
    assert command([f"resume={folder}", "engine.workers=2"]) == 0
    found = read(folder).result
    assert found.weights_sha256 == expected.weights_sha256
    assert (found.workers, expected.workers) == (2, 1)
    assert replay.main([str(folder)]) == 0


def test_parts_weigh_about_the_same_and_none_is_empty():
    assert cut([1, 1, 1, 1], 2) == [(0, 2), (2, 4)]
    assert cut([9, 1, 1, 1], 2) == [(0, 1), (1, 4)]
    assert cut([1, 1, 1, 9], 2) == [(0, 3), (3, 4)]
    assert cut([5], 3) == [(0, 1)]
    assert cut([1] * 10, 2, most=3) == [(0, 2), (2, 5), (5, 7), (7, 10)]
    assert cut([100, 1, 1, 1], 2, most=2) == [(0, 1), (1, 3), (3, 4)]


def test_a_message_holds_each_tensor_once_and_what_does_not_fit_inside():
    w = torch.arange(1000.0)
    rows, few = w.expand(50, 1000), torch.tensor(3)
    arena = Arena(2**14)
    data = arena.write({"rows": rows, "again": w[None].expand(7, -1), "few": few, "none": torch.zeros(0, 4)})
    assert len(data) < 1000
    found = arena.read(data)
    assert torch.equal(found["rows"], rows) and found["again"].shape == (7, 1000) and found["few"] == 3
    assert found["none"].shape == (0, 4)
    assert found["rows"].data_ptr() == found["again"].data_ptr()
    assert all(found[name].data_ptr() % 64 == 0 for name in ("rows", "few"))
    large = arena.write({"large": torch.arange(10_000.0), "half": w.bfloat16()})
    assert len(large) > 40_000
    assert torch.equal(arena.read(large)["large"], torch.arange(10_000.0))
    assert torch.equal(arena.read(large)["half"], w.bfloat16())

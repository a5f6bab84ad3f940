"""Workers share a study: no trial is run twice, a dead worker's trial comes back, and a stopped sweep goes on."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from made_result import made_result
from optuna.trial import TrialState

from bench.errors import UserError
from sweeps.plan import find
from sweeps.queue import BLOCK, ERROR, JOB, RESULT, GridQueue
from sweeps.storage import Storage, StorageAddress
from sweeps.worker import Options, TrialWorker

NAME, GRACE = "fedlga/fig2", 4
SCRIPT = """
import os, sys, time
from pathlib import Path
from threading import Thread
from bench.output.result import RunResult
from sweeps.worker import Options, TrialWorker

me, options = sys.argv[1], Options.loaded(sys.argv[2])

def execute(task):
    job = " ".join(task.claimed.words)
    with open("started.log", "a") as log:
        log.write(f"{me} {job}\\n")
    if me == "victim" and len(Path("started.log").read_text().splitlines()) > 2:
        Path("hangs").write_text(job)
        time.sleep(600)
    time.sleep(0.05)
    return RunResult(id="x", rounds=9, final=0.5, best=0.6, rounds_to_target=None, target=0.4)

sys.exit(TrialWorker(options, execute).work())
"""


def options(database, keys=("seed=0,1,2",), **more):
    return Options(NAME, tuple(keys), database, "runs", GRACE, **more)


def start(me, chosen):
    Path("worker.py").write_text(SCRIPT)
    return subprocess.Popen([sys.executable, "worker.py", me, chosen.dumped()], env=os.environ | {"PYTHONPATH": ROOT})


ROOT = str(Path(__file__).resolve().parents[2])


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def started():
    path = Path("started.log")
    return [line.split(" ", 1) for line in path.read_text().splitlines()] if path.exists() else []


def test_two_workers_of_which_one_is_killed_finish_everything_once(database):
    chosen = options(database, [f"seed={','.join(map(str, range(11)))}"])
    jobs = {" ".join(job) for job in find(NAME, chosen.keys).jobs}
    assert len(jobs) == 22 > BLOCK
    victim, survivor = start("victim", chosen), start("survivor", chosen)
    wait_for(lambda: Path("hangs").exists() and {who for who, _ in started()} == {"victim", "survivor"})
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    lost = Path("hangs").read_text()
    assert survivor.wait(120) == 0

    trials = GridQueue(find(NAME, chosen.keys), Storage(StorageAddress(database, GRACE))).trials()
    complete = Counter(t.user_attrs[JOB] for t in trials if t.state == TrialState.COMPLETE)
    assert set(complete) == jobs and set(complete.values()) == {1}
    assert [t.user_attrs[JOB] for t in trials if t.state == TrialState.FAIL] == [lost]
    again = Counter(job for _, job in started())
    assert again[lost] == 2 and all(count == 1 for job, count in again.items() if job != lost)


def test_workers_that_ask_at_the_same_time_never_get_the_same_trial(database):
    chosen = replace(options(database, [f"seed={','.join(map(str, range(12)))}"]), grace=60)  # nobody is silent so long
    queues = [chosen.queue() for _ in range(3)]
    got = []

    def ask(queue):
        while (claim := queue.claim()) is not None:
            got.append(claim.words)

    threads = [Thread(target=ask, args=(queue,)) for queue in queues]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == len(set(got)) == len(queues[0].trials()) == 24


def fake(**result):
    given = made_result(**{"best": 0.6, "rounds_to_target": 7, "target": 0.4, **result})
    return lambda task: given


@pytest.fixture
def sqlite(tmp_path):
    return f"sqlite:///{tmp_path}/new folder/sweeps.db"


def test_the_grid_is_enqueued_in_its_order_and_in_blocks(sqlite):
    worker = TrialWorker(options(sqlite, [f"seed={','.join(map(str, range(12)))}"]), fake())
    claimed = worker.queue.claim()
    assert len(worker.queue.trials()) == BLOCK
    worker._tell(claimed.trial, TrialState.COMPLETE, {RESULT: {}}, made_result())
    assert worker.work() == 0
    jobs = [shlex.join(job) for job in worker.queue.sweep.jobs]
    assert [trial.user_attrs[JOB] for trial in worker.queue.trials()] == jobs and len(jobs) == 24


def test_a_trial_has_the_overrides_as_parameters_and_the_result_as_attribute(sqlite):
    worker = TrialWorker(options(sqlite, ["seed=5", "rounds=9"]), fake())
    assert worker.work() == 0
    trial = worker.queue.trials()[1]
    assert trial.params == {
        **{"algo": "fedavg", "dataset": "cifar100", "protocol": "fedlga", "scale": "paper", "seed": 5.0, "rounds": 9.0},
        **{"devices.rho": 1.0, "devices.tau_max": 5.0},
    }
    assert trial.user_attrs[RESULT]["best_accuracy"] == 0.6 and trial.value == 0.5


def test_a_repeated_command_runs_only_what_is_left(sqlite):
    ran = []

    def execute(task):
        ran.append(task.claimed.words)
        if len(ran) == 3:
            raise KeyboardInterrupt
        return fake()(task)

    assert TrialWorker(options(sqlite), execute).work() == 130
    assert len(ran) == 3
    second = TrialWorker(options(sqlite), execute)
    assert [t.state for t in second.queue.trials()].count(TrialState.WAITING) == 4
    assert second.work() == 0
    assert ran[2] == ran[3] and len(set(ran)) == 6 and len(ran) == 7
    assert second.queue.state().finished == 6
    assert TrialWorker(options(sqlite), execute).work() == 0 and len(ran) == 7


def test_a_failing_trial_keeps_its_error_and_the_sweep_goes_on(sqlite):
    def execute(task):
        if "seed=1" in task.claimed.words:
            raise UserError("No data here.") if "devices.rho=1" in task.claimed.words else ZeroDivisionError("odd")
        return fake()(task)

    worker = TrialWorker(options(sqlite), execute)
    assert worker.work() == 0
    state = worker.queue.state()
    assert (state.finished, state.failed, state.open) == (4, 2, 0)
    errors = {t.user_attrs[ERROR] for t in worker.queue.trials() if t.state == TrialState.FAIL}
    assert errors == {"No data here.", "ZeroDivisionError: odd"}
    again = TrialWorker(options(sqlite), fake())
    assert again.queue.retry_failed() == 2 and again.work() == 0
    assert again.queue.state().finished == 6 and again.queue.state().failed == 0


def test_never_and_diverged_are_finished_trials_worse_than_any(sqlite):
    goals = {
        "algo=fedavg": {"rounds_to_target": None},
        "algo=fedprox": {"rounds_to_target": 3, "diverged": {"round": 5}},
    }

    def execute(task):
        return fake(**goals.get(task.claimed.words[0], {}))(task)

    keys = ("dataset=fmnist", "seed=0", "algo=fedavg,fedprox,fedsam")
    worker = TrialWorker(Options("fedlga/table5", keys, sqlite, "runs", GRACE), execute)
    assert worker.work() == 0
    assert [trial.value for trial in worker.queue.trials()] == [float("inf"), float("inf"), 7.0]
    assert worker.queue.study.best_trial.params["algo"] == "fedsam"


def test_a_worker_that_was_given_up_does_not_overwrite_the_retry(sqlite, capsys):
    worker = TrialWorker(options(sqlite, ["seed=0"]), fake())
    claimed = worker.queue.claim()
    claimed.trial.study.tell(claimed.trial.number, state=TrialState.FAIL)
    worker._tell(claimed.trial, TrialState.COMPLETE, {RESULT: {}}, made_result())
    assert worker.queue.trials()[0].state == TrialState.FAIL
    assert "another worker" in capsys.readouterr().out


def test_a_trial_that_kills_its_workers_is_given_up_after_three_retries(sqlite):
    worker = TrialWorker(options(sqlite, ["seed=0", "setting=E=5"]), fake())
    for _ in range(4):
        failed = worker.queue.study.tell(worker.queue.claim().trial, state=TrialState.FAIL)
        worker.queue.storage.optuna.get_heartbeat_stale_trial_callback()(worker.queue.study, failed)
    assert worker.queue.claim() is None and worker.queue.state().failed == 1


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://root@localhost/x", ("mysql", "PostgreSQL")),
        ("sweeps.db", ("sqlite:///",)),
        ("sqlite:///:memory:", ("file",)),
        ("postgresql://nobody@127.0.0.1:1/x", ("Cannot use the database", "postgresql")),
    ],
)
def test_a_database_that_cannot_be_used_is_refused_in_a_sentence(url, words):
    with pytest.raises(UserError) as refusal:
        Storage(StorageAddress(url))
    assert all(word in str(refusal.value) for word in words) and "\n" not in str(refusal.value)


def test_a_password_is_not_shown():
    with pytest.raises(UserError) as refusal:
        Storage(StorageAddress("postgresql://me:secret@127.0.0.1:1/x"))
    assert "secret" not in str(refusal.value)


def test_a_study_from_another_version_of_the_grid_is_refused(sqlite):
    assert TrialWorker(options(sqlite, ["seed=0"]), fake()).work() == 0
    sweep = find(NAME, ["seed=0"])
    changed = replace(sweep, runs=tuple(replace(r, overrides=("algo=fedprox", *r.overrides[1:])) for r in sweep.runs))
    with pytest.raises(UserError, match="another --storage"):
        GridQueue(changed, Storage(StorageAddress(sqlite, GRACE))).claim()

"""What may happen to a sweep's database: away for a while, locked, with words in it that nobody here wrote."""

import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Timer
from types import SimpleNamespace

import optuna
import pytest
from made_result import made_result
from optuna.trial import TrialState
from sqlalchemy import text

from bench.errors import UserError
from sweeps import storage
from sweeps.drive import Drive
from sweeps.patience import DatabaseAway
from sweeps.queue import ERROR, JOB, RECORD
from sweeps.storage import Storage, StorageAddress
from sweeps.worker import Options, TrialTask, TrialWorker, benchmark
from tests.patience import until

ROOT = str(Path(__file__).resolve().parents[2])
NAME, GRACE = "fedlga/fig2", 60
REAL = "fedagg/equal_rate"
SMALL = (
    *("dataset.source=synthetic", "dataset.samples=600", "test_samples=100", "logger=none", "clients=6", "cohort=3"),
    *("method=fedavg", "setting=dist=IID;eta=0.0[13]"),
)


def options(database, *keys):
    return Options(NAME, keys or ("seed=0,1,2",), database, "runs", GRACE)


@pytest.fixture
def sqlite(tmp_path):
    return f"sqlite:///{tmp_path}/sweeps.db"


def test_a_database_away_for_three_seconds_is_waited_for(server, on_server, capsys):
    ran = []

    def execute(task):
        ran.append(task.claimed.words)
        if len(ran) == 2:
            server.stop()
            Timer(3, server.start).start()
        return made_result(best=0.6, final=0.5)

    worker = TrialWorker(options(on_server), execute)
    assert worker.work() == 0
    assert worker.queue.state().finished == 6 and len(ran) == len(set(ran)) == 6
    err = capsys.readouterr().err
    assert err.count("waiting for the database postgresql://") == 1 and "The database is back after" in err


def test_a_database_away_while_a_trial_is_claimed_gives_every_trial_to_one_worker(server, on_server):
    worker = TrialWorker(options(on_server), lambda task: made_result(best=0.6))
    ask, stopped = worker.queue.storage.ask, []

    def away(study):
        if not stopped:
            stopped.append(server.stop())
            Timer(1, server.start).start()
        return ask(study)

    worker.queue.storage.ask = away
    assert worker.work() == 0 and stopped
    complete = Counter(t.user_attrs[JOB] for t in worker.queue.trials() if t.state == TrialState.COMPLETE)
    assert len(complete) == 6 and set(complete.values()) == {1}


def test_a_file_locked_for_too_long_is_a_sentence_and_the_finished_run_is_kept(sqlite, monkeypatch, capsys):
    monkeypatch.setattr(storage, "BUSY_SECONDS", 0.1)
    monkeypatch.setattr(storage, "AWAY_SECONDS", 2.0)
    chosen = Options(REAL, (*SMALL, "rounds=2", "seed=0"), sqlite, "runs", GRACE)
    other = sqlite3.connect(sqlite.removeprefix("sqlite:///"), isolation_level=None)
    ran = []

    def execute(task):
        result = benchmark(task)
        ran.append(result.id)
        if len(ran) == 1:
            other.execute("BEGIN EXCLUSIVE")
        return result

    with pytest.raises(DatabaseAway, match="nothing is lost"):
        TrialWorker(chosen, execute).work()
    assert "waiting for the database" in capsys.readouterr().err
    other.execute("ROLLBACK")
    again = TrialWorker(chosen, execute)
    (running,) = [trial for trial in again.queue.trials() if trial.state == TrialState.RUNNING]
    assert Path(running.user_attrs[RECORD]).name == ran[0]
    failed = again.queue.study.tell(running.number, state=TrialState.FAIL)  # as its missed heartbeat would
    again.queue.storage.optuna.get_heartbeat_stale_trial_callback()(again.queue.study, failed)
    assert again.work() == 0
    assert ran[1:] and ran.count(ran[0]) == 2  # its record is the result, nothing ran twice
    assert len(list(Path("runs").glob("2*"))) == len(set(ran)) == again.queue.state().finished


def test_a_link_in_place_of_the_lock_is_not_followed_and_no_file_is_cut(tmp_path, sqlite):
    precious = tmp_path / "precious.txt"
    precious.write_text("kept")
    (tmp_path / "sweeps.db.lock").symlink_to(precious)
    with pytest.raises(UserError, match="Cannot use the database"):
        Storage(StorageAddress(sqlite))
    (tmp_path / "sweeps.db.lock").unlink()
    precious.rename(tmp_path / "sweeps.db.lock")
    Storage(StorageAddress(sqlite))
    assert (tmp_path / "sweeps.db.lock").read_text() == "kept"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@host/db", "postgresql://me:***@host/db"),
        ("postgresql+psycopg://me:sec:r@et/secret@host:5432/db", "postgresql+psycopg://me:***@host:5432/db"),
        (
            "postgresql://me@host/db?password=secret&sslmode=require",
            "postgresql://me@host/db?password=***&sslmode=require",
        ),
        ("mysql://root:secret@localhost/x", "mysql://root:***@localhost/x"),
        ("postgresql:/me:secret@host/db", "postgresql:***@host/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("sqlite:///folder/file.db", "sqlite:///folder/file.db"),
    ],
)
def test_a_password_is_never_shown(url, shown):
    assert StorageAddress(url).shown == shown


def test_neither_the_driver_nor_the_list_of_processes_shows_the_password(server, on_server, capsys, monkeypatch):
    commands, popen = [], subprocess.Popen

    def ended(command, **more):
        commands.append(command)
        return popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)

    monkeypatch.setattr("sweeps.drive.subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": ended}))
    url = on_server.replace("postgres@", "postgres:secret@")
    chosen = options(url)
    assert Drive(chosen, 1, chosen.queue()).run() == 1
    out, err = capsys.readouterr()
    assert "secret" not in out + err and "postgres:***@" in out and "To go on" in err
    assert commands and "secret" not in str(commands)


def test_a_job_that_nobody_here_planned_is_not_run(sqlite, tmp_path):
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    worker = TrialWorker(options(sqlite), lambda task: made_result(best=0.6))
    job = shlex.join([*worker.queue.sweep.jobs[0], f"model.target={evil}:Net"])
    worker.queue.study.add_trial(optuna.create_trial(state=TrialState.WAITING, user_attrs={JOB: job}))
    worker.queue.study.add_trial(optuna.create_trial(state=TrialState.WAITING))
    ran = []
    worker.execute = lambda task: ran.append(task.claimed.words) or made_result(best=0.6)
    assert worker.work() == 0
    assert set(ran) == set(worker.queue.sweep.jobs) and len(ran) == 6
    bad = [t for t in worker.queue.trials() if t.state == TrialState.FAIL]
    assert len(bad) == 2 and all("none of this sweep's" in t.user_attrs[ERROR] for t in bad)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("where", ["elsewhere", "runs"])
def test_a_record_that_the_database_names_is_resumed_only_if_it_is_ours(where, sqlite, tmp_path):
    folder = tmp_path / where / "a"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("algo: {name: fedavg, _target_: os.system}\ncommand: python bench.py other\n")
    worker = TrialWorker(Options(REAL, (*SMALL, "rounds=2", "seed=0"), sqlite, "runs", GRACE))
    claimed = worker.queue.claim()
    claimed.trial.set_user_attr(RECORD, str(folder))
    result = benchmark(TrialTask(claimed, "runs", NAME, lambda folder: None, lambda round, accuracy: None))
    assert result.rounds == 2 and (tmp_path / "runs" / result.id).exists()
    assert [path.name for path in folder.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize(
    ("jump", "alive", "after"),
    [(-3600, True, None), (3600, False, 4.0), pytest.param(-3600, False, 1.6, marks=pytest.mark.slow)],
)
def test_a_clock_that_jumps_fails_no_trial_that_is_alive_and_hides_none_that_is_dead(jump, alive, after, database):
    """Heartbeats an hour old, or an hour ahead, as the database's clock sees them."""
    storage = TrialWorker(Options(NAME, ("seed=0",), database, "runs", 4)).queue.storage
    worker = TrialWorker(Options(NAME, ("seed=0",), database, "runs", 4))
    trial = worker.queue.claim().trial
    optuna_storage, study = storage.optuna, worker.queue.storage.study_id(trial.study)
    beat, began = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=jump), time.monotonic()

    def stale():
        if alive or stale.first:
            stale.first = False
            moved = beat + timedelta(seconds=int(time.monotonic() - began))
            with optuna_storage.engine.begin() as connection:
                connection.execute(text("UPDATE trial_heartbeats SET heartbeat = :beat"), {"beat": moved})
        return optuna_storage._get_stale_trial_ids(study)

    stale.first = True
    if after is None:
        assert not until(stale, 3)
    else:
        assert until(stale, 20) and time.monotonic() - began >= after


def command(*words):
    env = os.environ | {"PYTHONPATH": ROOT, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "sweeps", *words], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def has_rows():
    return any(len(path.read_text().splitlines()) > 3 for path in Path("runs").glob("2*/metrics.csv"))


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [3, 30])
def test_driver_and_workers_outlive_a_database_that_restarts(seconds, server, on_server):
    words = [REAL, *SMALL, "rounds=300", "seed=0,1", "--storage", on_server, "--workers", "2"]
    driver = command(*words)
    assert until(has_rows, 120)
    server.stop()
    time.sleep(seconds)
    server.start()
    out, err = driver.communicate(timeout=300)
    assert driver.returncode == 0 and "4/4 finished" in out, out + err
    assert "waiting for the database" in err and "The database is back" in err and "Traceback" not in err
    logs = "".join(path.read_text() for path in Path("runs").glob("*/worker-*.log"))
    assert "Traceback" not in logs
    assert len(list(Path("runs").glob("2*"))) == 4  # nothing ran twice


@pytest.mark.slow
def test_a_stopped_worker_is_said_then_ended_and_its_run_goes_on():
    words = [REAL, *SMALL, "rounds=1000", "seed=0", "setting=dist=IID;eta=0.01", "--grace", "4"]
    driver = command(*words)
    assert until(has_rows, 120)
    (child,) = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
    os.kill(int(child), signal.SIGSTOP)
    out, err = driver.communicate(timeout=120)
    assert driver.returncode == 1 and f"worker {child} was stopped" in err and "To go on: python -m sweeps" in err
    again = command(*words)
    out, err = again.communicate(timeout=120)
    assert again.returncode == 0 and "1/1 finished" in out, out + err
    assert len(list(Path("runs").glob("2*"))) == 1

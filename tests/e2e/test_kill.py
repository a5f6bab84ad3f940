"""SIGKILL at a random moment, then `resume=` alone: the end is that of a run nobody touched, bit for bit."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from bench.main import command
from bench.record import TIMES, read, read_all

ROOT = Path(__file__).parents[2]
ROUNDS = 60
SLOW_LINKS = ["devices.up=0.1", "devices.down=0.2"]  # so that downloads, training and uploads are under way at a kill
SETTINGS = {
    "synchronous": ["algo=scaffold", "devices.rho=0.5", "sampling=with_replacement", "eval_every=3"],
    "asynchronous": ["algo=fedasync", *SLOW_LINKS, "clients=12", "cohort=4"],
    "mail": [
        "algo=fedlc_t",
        "clients=8",
        "cohort=8",
        "arrivals_per_round=3",
        "devices.loss=0.3",
        "devices.peer=[0.1,10]",
        *SLOW_LINKS,
    ],
    "mail, lost for good": [
        "algo=fedlc",
        "clients=8",
        "cohort=8",
        "devices.loss=0.3",
        "devices.peer=[0.1,10]",
        *SLOW_LINKS,
    ],
    "buffered": ["algo=fedlga", "concurrency=9", "buffer=4", "devices.rho=0.5", *SLOW_LINKS],
}


def words(setting, out):
    return [*SETTINGS[setting], "logger=none", "checkpoint_seconds=0.05", f"rounds={ROUNDS}", f"out={out}"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same run without interruption, made once for each setting."""
    made = {}

    def get(setting):
        if setting not in made:
            out = tmp_path_factory.mktemp("whole")
            assert command(words(setting, out)) == 0
            (made[setting],) = read_all(out)
        return made[setting]

    return get


def without_times(run):
    return [{k: str(v) for k, v in row.items() if k not in TIMES} for row in run.rows]


def kill_and_resume(setting, whole, out):
    reference = whole(setting)
    seconds = reference.result.wall_seconds
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "bench.py"), *words(setting, out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"},
    )
    try:
        while not (list(out.glob("*/metrics.csv"))) and process.poll() is None:
            time.sleep(0.005)
        moment = random.uniform(0.1, 0.6) * seconds
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL, "the run ended before it was killed"
    (killed,) = read_all(out)
    assert killed.status == "interrupted", f"finished before the kill at {moment} s"
    assert killed.rows
    assert (killed.folder / "checkpoints" / "last.ckpt").exists()
    state = torch.load(killed.folder / "checkpoints" / "last.ckpt", weights_only=True)["federation"]["loop"]
    assert without_times(killed) == without_times(reference)[: len(killed.rows)]
    assert command([f"resume={killed.folder}"]) == 0
    resumed = read(killed.folder)
    assert resumed.result.weights_sha256 == reference.result.weights_sha256, f"killed after {moment} s"
    assert without_times(resumed) == without_times(reference), f"killed after {moment} s"
    timeline = [(run.folder / "timeline.csv").read_text() for run in (resumed, reference)]
    assert timeline[0] == timeline[1], f"killed after {moment} s"
    return state


def test_a_run_killed_with_mail_and_retransmissions_under_way_resumes_to_the_same_end(whole, tmp_path):
    state = kill_and_resume("mail", whole, tmp_path / "runs")
    assert state["mail"]["posted"] and any(job["attempts"] > 1 for job in state["jobs"])


@pytest.mark.parametrize("setting", ["synchronous", "asynchronous", "buffered"])
def test_a_killed_run_resumes_to_the_same_end(setting, whole, tmp_path):
    kill_and_resume(setting, whole, tmp_path / "runs")


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["synchronous", "asynchronous", "mail", "mail, lost for good"])
@pytest.mark.parametrize("number", range(10))
def test_a_killed_run_resumes_to_the_same_end_forty_more_times(setting, number, whole, tmp_path):
    kill_and_resume(setting, whole, tmp_path / "runs")

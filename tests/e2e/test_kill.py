"""SIGKILL at a random moment, then `resume=` alone: the end is that of a run nobody touched, bit for bit."""

import multiprocessing
import random
import signal
import time

import pytest
import torch

from bench.checkpoint import checkpoint_path
from bench.main import command
from bench.record import TIMES, read, read_all
from tests.patience import until

ROUNDS = 150
SLOW_LINKS = ["devices.up=0.1", "devices.down=0.2"]  # so that downloads, training and uploads are under way at a kill
MAIL = ["clients=8", "cohort=8", "devices.loss=0.3", "devices.peer=[0.1,10]", *SLOW_LINKS]
SETTINGS = {
    "synchronous": ["algo=scaffold", "devices.rho=0.5", "sampling=with_replacement", "eval_every=3"],
    "asynchronous": ["algo=fedasync", *SLOW_LINKS, "clients=12", "cohort=4"],
    "mail": ["algo=fedlc_t", "arrivals_per_round=3", *MAIL],
    "mail, lost for good": ["algo=fedlc", *MAIL],
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


def kept(out):
    """The last checkpoint in the folder of the one run there."""
    (path,) = out.glob("*/checkpoints/last.ckpt")
    return torch.load(path, weights_only=True)["federation"]


def kill_and_resume(setting, whole, out):
    """Killed a moment after a checkpoint of a round in the middle; forked, which spares the seconds of the imports."""
    reference, first = whole(setting), random.randint(13, 35)
    process = multiprocessing.get_context("fork").Process(target=command, args=[words(setting, out)])
    process.start()
    try:
        there = until(lambda: [*out.glob("*/checkpoints/last.ckpt")] and kept(out)["round"] >= first, 60)
        time.sleep(random.uniform(0, 0.05))
    finally:
        process.kill()
        process.join()
    assert there and process.exitcode == -signal.SIGKILL, "the run ended before it was killed"
    (killed,) = read_all(out)
    assert killed.status == "interrupted" and checkpoint_path(killed.folder).exists()
    state, moment = kept(out), f"killed after {len(killed.rows)} rounds"
    assert without_times(killed) == without_times(reference)[: len(killed.rows)]
    assert command([f"resume={killed.folder}"]) == 0
    resumed = read(killed.folder)
    assert resumed.result.weights_sha256 == reference.result.weights_sha256, moment
    assert without_times(resumed) == without_times(reference), moment
    timeline = [(run.folder / "timeline.csv").read_text() for run in (resumed, reference)]
    assert timeline[0] == timeline[1], moment
    return state


@pytest.mark.parametrize(
    "setting",
    ["synchronous", "mail", *(pytest.param(name, marks=pytest.mark.slow) for name in ("asynchronous", "buffered"))],
)
def test_a_killed_run_resumes_to_the_same_end(setting, whole, tmp_path):
    state = kill_and_resume(setting, whole, tmp_path / "runs")
    if setting == "mail":  # in its first 12 rounds nobody asks for a gradient
        assert state["loop"]["mail"]["posted"] and any(job["attempts"] > 1 for job in state["loop"]["jobs"])


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["synchronous", "asynchronous", "mail", "mail, lost for good"])
@pytest.mark.parametrize("number", range(10))
def test_a_killed_run_resumes_to_the_same_end_forty_more_times(setting, number, whole, tmp_path):
    kill_and_resume(setting, whole, tmp_path / "runs")

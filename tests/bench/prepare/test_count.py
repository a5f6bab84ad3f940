"""How many workers a run gets."""

import pytest
import torch

from algorithms.base import Schedule
from bench.prepare import compose, count
from bench.simulation.schedule import Rules

LARGE, SMALL = 10**7, 10


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))


def workers(*keys, size=LARGE, together=10, batch=None, device="cpu"):
    config = compose.config(["dataset=digits", *keys])
    return count.workers(
        config, size, [70] * 20, Rules(Schedule(together, together), 1, batch=batch), torch.device(device)
    )


def test_as_many_as_there_are_cores_for_a_large_model():
    assert workers() == 8


def test_one_where_a_round_takes_a_moment():
    assert workers(size=SMALL) == 1
    assert workers("engine.workers=2", size=SMALL) == 2


def test_more_local_work_makes_workers_worthwhile():
    assert workers("epochs=2", "batch_size=70", size=SMALL) == 1
    assert workers("epochs=2000", "batch_size=70", size=SMALL) == 8
    assert workers("epochs=20", "batch_size=1", size=SMALL) == 8
    assert workers("local_unit=step", "epochs=2", size=SMALL) == 1
    assert workers("local_unit=step", "epochs=2000", size=SMALL) == 8


def test_never_more_than_there_are_jobs_at_a_time():
    assert workers(together=3) == 3
    assert workers(batch=2) == 2
    assert workers("engine.workers=100", together=3) == 3


def test_one_on_a_gpu():
    assert workers("engine.workers=4", device="cuda") == 1

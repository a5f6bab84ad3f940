"""A loop that is stopped anywhere goes on from its state, in another process, to the bits it would have had."""

import io
import random
import time
from threading import Timer

import pytest
import torch

from bench.engine.steps import Stopped
from bench.prepare import compose
from bench.prepare.assemble import build
from bench.prepare.registry import classes
from bench.record import TIMES
from bench.simulation import underway

SMALL = ("dataset=digits", "clients=8", "cohort=4", "rounds=3", "epochs=2", "batch_size=40", "test_samples=64")
SLOW = ("devices.up=[0.02,0.1]", "devices.down=[0.02,0.1]", "devices.rho=0.5", "devices.spread=4")
ALL = ("arrivals_per_round=7", "engine.batch=3", *SLOW)
SETTINGS = {
    "a round as a whole": ("algo=scaffold", "sampling=with_replacement", "engine.batch=2", *SLOW),
    "a cohort again": ("algo=fedagg", "algo.mean_field=fixed_point", "schedule=sync", "rounds=2", *SLOW),
    "out of time": ("algo=fedavg", "virtual_seconds=0.35", "devices.spread=30"),
    "losses": ("algo=fedavg", "devices.loss=0.4", *SLOW),
    "every upload": ("algo=fedasync", *ALL),
    "buffered": ("algo=fedlga", "schedule=async", "concurrency=6", "buffer=4", *ALL),
    "mail": ("algo=fedlc", "cohort=8", "devices.loss=0.3", "devices.peer=[0.1,10]", *SLOW),
}
ENGINES = ("eager", "chain", "native", "vmap")


def loop(*words):
    config = compose.config([*SMALL, *words])
    return build({**config, "engine": {**config["engine"], "workers": 1}}).loop


def history(loop, rows):
    while not loop.finished:
        row = loop.advance()
        rows.append({k: str(v) for k, v in row.items() if k not in TIMES} | {"jobs": list(loop.ended)})
    return rows


def looking(loop, at=None):
    """Counts how often somebody looks whether to stop; the one at `at` sees that he is."""
    steps, seen = loop.engine.steps, [0]

    def look():
        seen[0] += 1
        if seen[0] == at:
            raise Stopped

    steps.look = look
    return seen


def moved(loop, other):
    file = io.BytesIO()
    torch.save(loop.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))


def stops_anywhere(*words, times):
    whole, rows = loop(*words), []
    seen = looking(whole)
    expected = history(whole, [])
    midway = 0
    for at in sorted(random.Random(0).sample(range(1, seen[0] + 1), min(times, seen[0]))):
        one, other, rows = loop(*words), loop(*words), []
        looking(one, at)
        with pytest.raises(Stopped):
            history(one, rows)
        midway += bool(one.ended or one.again)
        moved(one, other)
        assert history(other, rows) == expected, at
        for name, value in whole.server.items():
            assert torch.equal(value, other.server[name]), (at, name)
        memories = (made.memory.rows(name) for name in whole.memory.initial for made in (whole, other))
        for mine, theirs in zip(memories, memories, strict=True):
            assert torch.equal(mine, theirs), at
    return midway


@pytest.mark.parametrize("setting", SETTINGS)
def test_it_goes_on_to_the_same_end(setting):
    midway = stops_anywhere(*SETTINGS[setting], times=6)
    assert midway or setting in ("a round as a whole", "out of time"), "all stops were at the beginning of a round"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("algo", ["scaffold", "fedasync"])
def test_under_every_engine(engine, algo):
    words = ALL if algo == "fedasync" else SLOW
    stops_anywhere(f"algo={algo}", f"engine={engine}", "model=mlp", "model.hidden=[8]", *words, times=3)


@pytest.mark.slow
@pytest.mark.parametrize("algo", sorted(classes("algo")))
@pytest.mark.parametrize("schedule", ["null", "sync", "async"])
def test_every_method(algo, schedule):
    if schedule == "async" and "trace" in classes("algo")[algo]().requires:
        return
    words = ("arrivals_per_round=7",) if schedule == "async" else ()
    stops_anywhere(f"algo={algo}", f"schedule={schedule}", *SLOW, *words, times=4)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("algo", ["fedavg", "fedasync"])
def test_a_long_round_ends_at_once_in_all_processes(algo, workers):
    words = ("algo=" + algo, "schedule=null", "cohort=8", "epochs=2000", f"engine.workers={workers}", "engine=eager")
    parts = build(compose.config([*SMALL, *words]))
    try:
        begin = time.monotonic()
        Timer(0.5, parts.loop.stop).start()
        with pytest.raises(Stopped):
            parts.loop.advance()
        assert time.monotonic() - begin < 2.5
    finally:
        parts.workers.close()


def test_the_first_round_of_many_devices_at_work_does_not_wait_for_all(monkeypatch):
    """As soon as a call takes longer than it is to take, nobody is trained before somebody waits for them."""
    monkeypatch.setattr(underway, "START", 3)
    monkeypatch.setattr(underway, "LONG", 0.0)
    one = loop("algo=fedasync", "clients=40", "cohort=40", "arrivals_per_round=4", "engine=eager")
    one.advance()
    assert one.underway.trained == 4 and len(one.jobs) == 40

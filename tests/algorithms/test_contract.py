"""What every algorithm has to keep, found through the registry: a new one is covered without being named here."""

import inspect
import io
from dataclasses import fields, replace
from functools import cache

import pytest
import torch

from algorithms.base import Algorithm
from bench.assemble import build
from bench.errors import UserError
from bench.main import plan, store
from bench.record import TIMES
from bench.registry import classes

ALGORITHMS = sorted(classes("algo"))
SETTINGS = {
    "stragglers": ["devices.rho=0.5", "epochs=3"],
    "a cohort of one": ["cohort=1"],
    "full participation": ["cohort=8"],
    "drawn with replacement": ["sampling=with_replacement", "cohort=6"],
    "momentum and decay": ["momentum=0.5", "weight_decay=0.001"],
    "steps": ["local_unit=step", "epochs=3"],
    "asynchronous": ["schedule=async"],
    "buffered": ["concurrency=8", "buffer=3", "devices.redraw=true", "devices.up=1", "devices.down=2"],
    "buffered, with replacement": ["concurrency=6", "buffer=3", "sampling=with_replacement"],
    "a device with a single sample": ["partition=dirichlet", "partition.alpha=0.05", "partition.min_size=1"],
}
ASYNCHRONOUS = ("asynchronous", "buffered", "buffered, with replacement")


@cache
def config(*overrides):
    store()
    small = ["dataset=digits", "clients=8", "cohort=3", "rounds=3", "epochs=2", "batch_size=40", "test_samples=64"]
    return plan([*small, *overrides], multirun=False)[0]


def parts(name, *overrides):
    return build(config(f"algo={name}", *overrides))


def finish(loop):
    while not loop.finished:
        row = loop.advance()
    return row


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_runs_in_every_setting_and_resumes_bit_for_bit(name, setting):
    if "trace" in classes("algo")[name]().need and setting in ASYNCHRONOUS:
        with pytest.raises(UserError, match="synchronous"):
            config(f"algo={name}", *SETTINGS[setting])
        return
    loop = parts(name, *SETTINGS[setting]).loop
    w0 = loop.server["w"].clone()
    loop.advance()
    loop.advance()
    file = io.BytesIO()
    torch.save(loop.state_dict(), file)
    file.seek(0)
    resumed = parts(name, *SETTINGS[setting]).loop
    resumed.load_state_dict(torch.load(file, weights_only=True))
    row, again = finish(loop), finish(resumed)
    assert torch.isfinite(loop.server["w"]).all()
    assert not torch.equal(loop.server["w"], w0)
    for key, value in loop.server.items():
        assert torch.equal(value, resumed.server[key]), key
    for key in loop.memory.initial:
        assert torch.equal(loop.memory.rows(key), resumed.memory.rows(key)), key
    assert {k: v for k, v in row.items() if k not in TIMES} == pytest.approx(
        {k: v for k, v in again.items() if k not in TIMES}, rel=0, abs=0, nan_ok=True
    )


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if classes("algo")[name].cacheable])
def test_cached_aggregation_resumes_bit_for_bit(name):
    loops = [parts(name, "aggregation=cached").loop for _ in range(2)]
    loops[0].advance()
    loops[1].load_state_dict(loops[0].state_dict())
    for loop in loops:
        finish(loop)
    assert torch.equal(loops[0].server["w"], loops[1].server["w"])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_how_many_jobs_are_trained_together_changes_no_bit(name):
    kind = "sync" if "trace" in classes("algo")[name]().need else "async"
    loops = [parts(name, f"schedule={kind}", "rounds=2", f"engine.batch={batch}").loop for batch in ("1", "3", "null")]
    for loop in loops:
        finish(loop)
    assert torch.equal(loops[0].server["w"], loops[1].server["w"])
    assert torch.equal(loops[0].server["w"], loops[2].server["w"])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_seed_decides_the_result(name):
    def weights(seed):
        loop = parts(name, f"seed={seed}").loop
        finish(loop)
        return loop.server["w"]

    assert torch.equal(weights(3), weights(3))
    assert not torch.equal(weights(3), weights(4))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_functions_leave_their_inputs_alone(name):
    loop = parts(name, "devices.rho=0.5", "epochs=3").loop
    before = loop.server
    seen = []

    def guard(function, *arguments):
        tensors = [t for a in arguments for t in _tensors(a)]
        saved = [t.clone() for t in tensors]
        result = function(*arguments)
        seen.extend(torch.equal(now, then) for now, then in zip(tensors, saved, strict=True))
        return result

    class Guarded(type(loop.algo)):
        def local(self, *a):
            return guard(super().local, *a)

        def upload(self, *a):
            return guard(super().upload, *a)

        def aggregate(self, *a):
            return guard(super().aggregate, *a)

    loop.algo = Guarded(**{f.name: getattr(loop.algo, f.name) for f in fields(loop.algo)})
    finish(loop)
    assert len(seen) > 20
    assert all(seen)
    assert set(loop.server) == set(before)


def _tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in _tensors(v)]
    if hasattr(value, "__dataclass_fields__") and not hasattr(value, "layout"):
        return [t for f in fields(value) for t in _tensors(getattr(value, f.name))]
    return []


@pytest.mark.parametrize("name", ALGORITHMS)
def test_bytes_follow_from_what_is_declared(name):
    loop = parts(name).loop
    algo, fed, sizes = loop.algo, loop.fed, loop.engine.layout.sizes
    stays = {"none": torch.zeros_like(fed.layout.head), "body": ~fed.layout.head, "head": fed.layout.head}[
        algo.personal
    ]
    up = 0
    while not loop.finished:
        row = loop.advance()
        for job in loop.ended:
            up += 4 * (int(sizes[algo.sends(job[1], fed) & ~stays].sum()) + algo.extra_up(fed))
    down = sum(loop.server[key].numel() for key in algo.broadcast) - int(sizes[stays].sum())
    down += sum(loop.server[key][0].numel() for key in algo.unicast)
    assert row["bytes_up"] == up > 0
    assert row["bytes_down"] % (4 * down) == 0


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_docstring_names_the_paper_and_the_deviations(name):
    cls = classes("algo")[name]
    text = inspect.getdoc(cls) or ""
    assert "Deviations" in text
    assert any(str(year) in text for year in range(2016, 2027)), "no venue with its year"
    assert len(inspect.getsource(inspect.getmodule(cls)).splitlines()) <= 100
    assert all(f.kw_only for f in fields(cls))
    with pytest.raises(AttributeError):
        cls().anything = 1
    assert isinstance(replace(cls()), Algorithm)

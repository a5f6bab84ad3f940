"""What every algorithm has to keep, found through the registry: a new one is covered without being named here."""

import inspect
import math
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import pytest
import torch

from algorithms.base import Algorithm, Fed
from bench import compiled
from bench.errors import UserError
from bench.learning.flat import Layout
from bench.prepare import check, compose
from bench.prepare.assemble import build
from bench.prepare.registry import classes, create
from tests.algorithms.loops import finish, interrupt, same_end, state, tensors, watch

ALGORITHMS = sorted(classes("algo"))
LONE = "partition=dirichlet partition.alpha=0.01 partition.min_size=1 cohort=8"
SETTINGS = {
    "stragglers": ["devices.rho=0.5", "epochs=3"],
    "a cohort of one": ["cohort=1"],
    "full participation": ["cohort={clients}"],
    "drawn with replacement": ["sampling=with_replacement", "cohort=6"],
    "momentum and decay": ["momentum=0.5", "weight_decay=0.001"],
    "steps": ["local_unit=step", "epochs=3"],
    "asynchronous": ["schedule=async"],
    "buffered": ["concurrency=8", "buffer=3", "devices.redraw=true", "devices.up=1", "devices.down=2"],
    "half a buffer": ["schedule=async", "concurrency=8", "buffer=4", "arrivals_per_round=3"],
    "buffered, with replacement": ["concurrency=6", "buffer=3", "sampling=with_replacement"],
    "refilled": ["concurrency=3", "buffer=5", "refill=at_once", "devices.redraw=true", "devices.up=1"],
    "a device with a single sample": LONE.split(),
}
FLOAT64 = (*list(SETTINGS)[:4], "a device with a single sample")
# fields with which a method sends something else
SENDS_OTHERWISE = ("fedlga algo.gradient=last", "fedagg algo.mean_field=prerun", "fedagg algo.mean_field=fixed_point")
DOUBLE = ("model=custom", f"model.target={Path(__file__).with_name('double_module.py')}:Double")
SLOW = pytest.mark.slow
# every engine keeps the whole contract; what runs always: float32 in the default engine, float64 in the general one
FOR_CHAINS = ("chain",) if isinstance(compiled.library(), str) else ("native", "chain")
ENGINES = (FOR_CHAINS[0], *(pytest.param(name, marks=SLOW) for name in (*FOR_CHAINS[1:], "eager", "vmap")))
DOUBLES = ("eager", pytest.param("chain", marks=SLOW), pytest.param("vmap", marks=SLOW))
ASYNCHRONOUS = ("asynchronous", "buffered", "half a buffer", "buffered, with replacement", "refilled")


def method(name):
    """The node of an algorithm, with its fields; composed with devices enough for any schedule."""
    return compose.config(["dataset=digits", "clients=100", "protocol=none", *f"algo={name}".split()])["algo"]


@cache
def clients(name):
    """Eight, or as many as the schedule of the method's own paper needs."""
    plan = create(method(name)).schedule(Fed(8, 3, 3, 2, 0.1, 0, 0, torch.ones(8), Layout(torch.nn.Linear(1, 1))))
    return max(8, plan.concurrency, plan.buffer)


@cache
def composed(number, *overrides):
    small = ["dataset=digits", f"clients={number}", "cohort=3", "rounds=3", "epochs=2", "batch_size=40"]
    return compose.config([*small, "test_samples=64", "protocol=none", *overrides])


def config(name, *overrides):
    """Algorithm and setting are composed apart, each once: Hydra takes longer for a pair than the run that is tested,
    and with digits, for which no paper has a protocol, nothing in one depends on the other."""
    number = clients(name)
    words = (word.format(clients=number) if "{clients}" in word else word for word in overrides)
    chosen = composed(number, *words) | {"algo": method(name)}
    check.config(chosen)
    return chosen


def test_an_algorithm_and_a_setting_composed_apart_are_what_the_command_line_gives():
    assert config("fedlga", *SETTINGS["stragglers"]) == composed(8, "algo=fedlga", *SETTINGS["stragglers"])


@pytest.fixture(params=ENGINES)
def parts(request):
    """Assembles a run of an algorithm, with each engine that exists."""

    def assemble(name, *overrides, double=False):
        own = double and request.param in ("eager", "vmap")  # a user's own module is no chain
        chosen = config(name, *(DOUBLE if own else ()), *overrides)
        engine = "chain" if double and request.param == "native" else request.param  # which has float32 alone
        chosen = {**chosen, "engine": {**chosen["engine"], "name": engine, "workers": 1}}
        torch.set_default_dtype(torch.float64 if double and not own else torch.float32)
        try:
            return build(chosen)
        finally:
            torch.set_default_dtype(torch.float32)

    return assemble


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_runs_in_every_setting_and_resumes_bit_for_bit(parts, name, setting):
    if "trace" in classes("algo")[name]().requires and setting in ASYNCHRONOUS:
        with pytest.raises(UserError, match="synchronous"):
            config(name, *SETTINGS[setting])
        return
    loop, resumed = (parts(name, *SETTINGS[setting]).loop for _ in range(2))
    before = loop.deployed().clone()
    loop.advance()
    loop.advance()
    interrupt(loop, resumed)
    same_end(loop, resumed)
    after = loop.deployed()
    assert torch.isfinite(after).all() and after.dtype == torch.float32
    assert not torch.equal(after, before)


@pytest.mark.parametrize("parts", DOUBLES, indirect=True)
@pytest.mark.parametrize("setting", FLOAT64)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_module_in_double_is_trained_in_double_and_resumes_bit_for_bit(parts, name, setting):
    loop, resumed = (parts(name, *SETTINGS[setting], "rounds=2", double=True).loop for _ in range(2))
    before = loop.deployed().clone()
    loop.advance()
    interrupt(loop, resumed)
    same_end(loop, resumed)
    after = loop.deployed()
    assert torch.isfinite(after).all()
    assert not torch.equal(after, before)
    assert {value.dtype for value in state(loop).values() if value.is_floating_point()} == {torch.float64}
    assert not torch.equal(after, after.float().double())  # nothing was rounded on its way


@pytest.mark.parametrize("dataset", ["diabetes", pytest.param("characters", marks=SLOW)])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_learns_other_tasks_and_resumes_bit_for_bit(name, dataset):
    small = ["epochs=2", "local_unit=step", "batch_size=4", "test_samples=64", "engine.workers=1"]
    words = [f"dataset={dataset}", f"clients={clients(name)}", "cohort=3", "rounds=2", *small]
    chosen = compose.config(words) | {"algo": method(name)}
    if dataset == "diabetes" and create(chosen["algo"]).needs_classes:
        with pytest.raises(UserError, match="whose labels are numbers"):
            check.config(chosen)
        return
    parts, other = build(chosen), build(chosen)
    loop, before = parts.loop, parts.loop.deployed().clone()
    loop.advance()
    interrupt(loop, other.loop)
    same_end(loop, other.loop)
    assert not torch.equal(loop.deployed(), before)
    figures = parts.evaluate(True)
    assert figures == other.evaluate(True) and all(map(math.isfinite, figures.values()))


@pytest.mark.parametrize("double", [False, True], ids=["float32", "float64"])
def test_the_settings_are_what_they_are_called(parts, double):
    def first(setting):
        loop = parts("fedavg", *SETTINGS[setting], double=double).loop
        return loop, loop.draft(loop.first())

    assert len(set(first("stragglers")[1].epochs)) > 1
    assert len(first("a cohort of one")[1]) == 1
    assert len(first("full participation")[1]) == 8
    assert max(first("drawn with replacement")[1].count) > 1
    loop, rows = first("a device with a single sample")
    assert 1 in [loop.fed.samples[client] for client in rows.client]


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if classes("algo")[name].cacheable])
def test_cached_aggregation_resumes_bit_for_bit(parts, name):
    loops = [parts(name, "aggregation=cached").loop for _ in range(2)]
    loops[0].advance()
    loops[1].load_state_dict(loops[0].state_dict())
    for loop in loops:
        finish(loop)
    assert torch.equal(loops[0].server["w"], loops[1].server["w"])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_how_many_jobs_are_trained_together_changes_no_bit(parts, name):
    kind = "sync" if "trace" in classes("algo")[name]().requires else "async"
    loops = [parts(name, f"schedule={kind}", "rounds=2", f"engine.batch={batch}").loop for batch in ("1", "3", "null")]
    for loop in loops:
        finish(loop)
    assert torch.equal(loops[0].deployed(), loops[1].deployed())
    assert torch.equal(loops[0].deployed(), loops[2].deployed())


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_seed_decides_the_result(parts, name):
    def weights(seed):
        loop = parts(name, f"seed={seed}").loop
        finish(loop)
        return loop.deployed()

    assert torch.equal(weights(3), weights(3))
    assert not torch.equal(weights(3), weights(4))


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if not classes("algo")[name].pooled])
def test_cohorts_stragglers_and_their_times_do_not_depend_on_the_method(parts, name):
    def ended(name, *overrides):
        loop, found = parts(name, "schedule=sync", *SETTINGS["stragglers"], *overrides).loop, []
        watch(loop, repeat_round=lambda repeat_round, *arguments: False)
        while not loop.finished:
            loop.advance()
            found += loop.ended
        return found

    assert ended(name) == ended("fedavg", f"clients={clients(name)}") != ended(name, "seed=1")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_functions_leave_their_inputs_alone(parts, name):
    loop = parts(name, "devices.rho=0.5", "epochs=3").loop
    before = loop.server
    seen = []

    def guard(function, *arguments):
        inputs = [t for a in arguments for t in tensors(a)]
        saved = [t.clone() for t in inputs]
        result = function(*arguments)
        seen.extend(torch.equal(now, then) for now, then in zip(inputs, saved, strict=True))
        return result

    watch(loop, local=guard, upload=guard, aggregate=guard)
    finish(loop)
    assert len(seen) > 20
    assert all(seen)
    assert set(loop.server) == set(before)


@pytest.mark.parametrize("name", [*ALGORITHMS, *SENDS_OTHERWISE])
def test_bytes_are_those_of_what_is_sent(parts, name):
    """Beside the model travels what `upload` gives, and the device's path where the method is given one: its models
    between the epochs (the first it was sent, the last it sends) and the gradients of each."""
    loop = parts(name).loop
    algo, fed, sizes, beside, paths = loop.algo, loop.fed, loop.engine.layout.sizes, set(), set()

    def upload(hook, *arguments):
        sent = hook(*arguments)
        beside.add(sum(value[0].numel() for value in sent.extra.values()))
        return sent

    def aggregate(hook, server, updates, fed):
        trace = updates.trace
        paths.add(0 if trace is None else trace.w[1:-1].numel() + trace.gradient.numel())
        return hook(server, updates, fed)

    watch(loop, upload=upload, aggregate=aggregate)
    head, nothing = fed.layout.head, torch.zeros_like(fed.layout.head)
    stays = {"none": nothing, "body": ~head, "head": head, "all": ~nothing}[algo.personal]
    layers = []
    while not loop.finished:
        row = loop.advance()
        layers += [int(sizes[algo.sends(job[1], fed) & ~stays].sum()) for job in loop.ended]
    (extra,), (path,) = beside, paths
    assert algo.extra_up(fed) == extra + path
    assert row["bytes_up"] == 4 * sum(numbers + extra + path for numbers in layers)
    assert bool(row["bytes_up"]) == (algo.personal != "all")
    down = sum(loop.server[key].numel() for key in algo.broadcast) - int(sizes[stays].sum())
    down += sum(loop.server[key][0].numel() for key in algo.unicast)
    assert row["bytes_down"] % (4 * down) == 0 if down else row["bytes_down"] == 0


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_docstring_names_the_paper_and_the_deviations(name):
    cls = classes("algo")[name]
    text = inspect.getdoc(cls) or ""
    assert "Deviations" in text
    if cls.personal != "all":  # of which the references have no paper
        assert any(str(year) in text for year in range(2016, 2027)), "no venue with its year"
    assert len(inspect.getsource(inspect.getmodule(cls)).splitlines()) <= 100
    assert all(f.kw_only for f in fields(cls))
    with pytest.raises(AttributeError):
        cls().anything = 1
    assert isinstance(replace(cls()), Algorithm)

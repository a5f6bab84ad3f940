"""Every engine tells of the steps it takes, as many as there are, while it takes them."""

import pytest
import torch
from federations import SIZES, Problem, Ruled

from algorithms.base import LocalRule
from bench import compiled
from bench.engine.conv import Convolutional
from bench.engine.dense import Dense
from bench.engine.eager import Eager
from bench.engine.native import Native
from bench.engine.steps import Steps
from bench.engine.vmap import Vmap
from bench.prepare import compose
from bench.prepare.assemble import build

SMALL, LARGE, THIN = (6, 5, 3), (200, 400, 3), (6, 1, 3)
needs_c = pytest.mark.skipif(isinstance(compiled.library(), str), reason="no compiler")
ENGINES = [(Eager, SMALL), (Convolutional, SMALL), (Dense, SMALL), (Dense, LARGE), (Dense, THIN), (Vmap, SMALL)]


@pytest.mark.parametrize(("engine", "units"), [*ENGINES, pytest.param(Native, SMALL, marks=needs_c)])
@pytest.mark.parametrize("rule", [LocalRule(), LocalRule(sam=0.3)], ids=["plain", "sam"])
def test_steps_are_told_in_parts_and_add_up(engine, units, rule, monkeypatch):
    problem = Problem(units, torch.float32)
    made, told = engine(problem.module, problem.layout, problem.batches), []
    monkeypatch.setattr(made.steps, "add", told.append)
    trained = problem.train(made, Ruled(rule=rule), list(range(len(SIZES))))
    assert sum(told) == int(trained["steps"].sum()) == 35 and len(told) >= 3  # three epochs at least


def test_forked_processes_see_each_others_steps():
    small = ["dataset=digits", "clients=12", "cohort=6", "rounds=2", "epochs=2", "logger=none"]
    parts = build(compose.config([*small, "algo=fedavg", "engine.workers=3"]))
    try:
        loop = parts.loop
        loop.advance()
        assert loop.engine.steps.total == loop.evaluations > 0
        assert all(loop.engine.steps._taken)
        assert (loop.underway.trained, loop.underway.devices) == (6, 0)
    finally:
        parts.workers.close()


def test_a_number_is_large_enough_for_any_run():
    steps = Steps(2)
    steps.add(2**40)
    steps.own = 1
    steps.add(1)
    assert steps.total == 2**40 + 1

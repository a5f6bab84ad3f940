"""The dense chain takes the steps that autograd takes, and a device's result does not depend on its company."""

import pytest
import torch
from torch import nn

from algorithms.base import LocalRule
from bench.engine import crowd
from bench.engine.dense import Dense, linears
from bench.engine.eager import Eager
from bench.learning.task_net import TaskNet
from bench.prepare.registry import classes
from tests.bench.engine.federations import NEEDS, RULES, SIZES, Problem, Ruled, noisy, path, rules, same

ALGORITHMS = sorted(classes("algo"))
ALONE = 1  # bytes of cache: no two devices fit into a stack


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize(
    ("dtype", "tolerance", "cached"),
    [
        pytest.param(torch.float32, 5e-6, crowd.CACHE, id="float32, stacked"),
        pytest.param(torch.float64, 1e-10, crowd.CACHE, id="float64, stacked"),
        pytest.param(torch.float64, 1e-10, ALONE, id="float64, alone", marks=pytest.mark.slow),
    ],
)
def test_every_algorithm_goes_autograds_way(name, dtype, tolerance, cached, monkeypatch):
    autograds = path(name, dtype, Eager)
    monkeypatch.setattr(crowd, "CACHE", cached)
    for ours, theirs in zip(path.__wrapped__(name, dtype, Dense), autograds, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)


@pytest.mark.parametrize("needs", [frozenset(), NEEDS], ids=["no need", "every need"])
@pytest.mark.parametrize("cached", [crowd.CACHE, ALONE], ids=["stacked", "alone"])
@pytest.mark.parametrize("rule", RULES)
def test_every_term_and_need_is_that_of_autograd(rule, cached, needs, monkeypatch):
    monkeypatch.setattr(crowd, "CACHE", cached)
    for dtype, tolerance in [(torch.float32, 3e-5), (torch.float64, 1e-12)]:
        problem = Problem((12, 9, 7, 3), dtype)
        local, constants = rules(problem)[rule]
        parts = (problem.module, problem.layout, problem.batches)
        algo, devices = Ruled(rule=local, needs=needs), list(range(len(SIZES)))
        found = [problem.train(engine(*parts), algo, devices, **constants) for engine in (Dense, Eager)]
        assert found[0].keys() >= needs
        same(*found, tolerance)


@pytest.mark.parametrize("cached", [crowd.CACHE, ALONE], ids=["stacked", "alone"])
@pytest.mark.parametrize(
    "keys", [{"augment": noisy}, {"local_unit": "step"}, {"bias": False}], ids=["augmented", "by step", "no bias"]
)
def test_data_and_models_of_every_kind_are_trained_as_by_autograd(keys, cached, monkeypatch):
    monkeypatch.setattr(crowd, "CACHE", cached)
    for units in [(12, 9, 7, 3), (5, 4), (4, 1, 3)]:
        problem = Problem(units, torch.float64, **keys)
        algo, parts = Ruled(rule=LocalRule(prox=0.2)), (problem.module, problem.layout, problem.batches)
        found = [problem.train(engine(*parts), algo, [3, 0, 5, 2]) for engine in (Dense, Eager)]
        same(*found, 1e-12)


@pytest.mark.parametrize("rule", ["plain", "prox, drift, rates", "all"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("units", [(64, 32, 10), (100, 10), (7, 9, 3), (61, 47, 33, 5), (1, 26, 2), (39, 1, 2)])
def test_a_devices_result_does_not_depend_on_its_company_to_the_bit(units, dtype, rule):
    problem = Problem(units, dtype)
    local, constants = rules(problem)[rule]
    algo = Ruled(rule=local, needs=NEEDS if rule == "all" else frozenset())

    def train(devices):
        return problem.train(Dense(problem.module, problem.layout, problem.batches), algo, devices, **constants)

    everyone = train(list(range(len(SIZES))))
    for groups in ([[k] for k in range(7)], [[0, 1, 2], [3, 4, 5], [6]], [[4, 6, 0, 2, 5, 1, 3]], [[5, 2], [6, 1, 0]]):
        for devices in groups:
            for name, value in train(devices).items():
                assert torch.equal(value, everyone[name][devices]), name


def test_stacks_hold_several_devices_and_large_models_are_alone():
    def engine(*units):
        problem = Problem(units, torch.float32)
        return Dense(problem.module, problem.layout, problem.batches)

    assert engine(64, 32, 10).crowd.most >= 10
    assert not engine(64, 32, 10).large
    assert engine(784, 400, 10).large


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.Linear(4, 2)), "Sigmoid"),
        (nn.Sequential(nn.Conv2d(1, 1, 1), nn.Flatten(), nn.Linear(4, 2)), "Conv2d"),
        (nn.Sequential(nn.ReLU(), nn.Linear(4, 2)), "begins"),
        (nn.Sequential(nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 2)), "frozen"),
        (nn.Sequential(*[nn.Linear(4, 4)] * 2), "twice"),
    ],
)
def test_a_model_that_is_no_dense_chain_is_named(net, reason):
    found = linears(TaskNet(net))
    assert isinstance(found, str)
    assert reason in found

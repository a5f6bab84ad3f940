"""The dense chain takes the steps that autograd takes, and a device's result does not depend on its company."""

from dataclasses import dataclass, fields
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from algorithms.base import Algorithm, Fed, Jobs, LocalRule
from bench.engine import crowd
from bench.engine.dense import Dense, linears
from bench.engine.eager import Eager
from bench.learning.batches import Batches
from bench.learning.classifier import Classifier
from bench.learning.flat import Layout
from bench.main import plan, store
from bench.prepare import assemble
from bench.prepare.registry import classes

ALGORITHMS = sorted(classes("algo"))
NEEDS = frozenset({"last_gradient", "mean_gradient", "full_gradient", "start_loss", "prototypes"})
ALONE = 1  # bytes of cache: no two devices fit into a stack
SIZES = [23, 1, 40, 7, 10, 33, 4]  # samples of each device, in batches of 10
EPOCHS = [3, 3, 2, 1, 3, 2, 3]


@cache
def composed(name: str) -> dict[str, Any]:
    """Hydra takes as long as the run that is tested: once for all engines and types."""
    store()
    small = ["dataset=digits", "clients=5", "cohort=4", "rounds=2", "epochs=2", "batch_size=17", "lr=0.05"]
    uneven = ["partition=dirichlet", "partition.alpha=1", "devices.rho=0.5", "test_samples=64"]
    return plan([*small, *uneven, f"algo={name}", "engine.workers=1"], multirun=False)[0]


@cache
def path(name: str, dtype: torch.dtype, engine: type, cached: int = crowd.CACHE) -> list[torch.Tensor]:
    """The server's models in a run of some 50 steps a device, with stragglers and ragged batches."""
    config = composed(name)
    torch.set_default_dtype(dtype)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(crowd, "CACHE", cached)
            loop = assemble.build({**config, "engine": {**config["engine"], "name": engine.name}}).loop
        assert type(loop.engine) is engine
        models = []
        while not loop.finished:
            loop.advance()
            models.append(loop.server["w"])
    finally:
        torch.set_default_dtype(torch.float32)
    assert models[0].dtype == dtype
    return models


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize(
    ("dtype", "tolerance", "cached"),
    [
        pytest.param(torch.float32, 5e-6, crowd.CACHE, id="float32, stacked"),
        pytest.param(torch.float64, 1e-10, crowd.CACHE, id="float64, stacked"),
        pytest.param(torch.float64, 1e-10, ALONE, id="float64, alone", marks=pytest.mark.slow),
    ],
)
def test_every_algorithm_goes_autograds_way(name, dtype, tolerance, cached):
    for ours, theirs in zip(path(name, dtype, Dense, cached), path(name, dtype, Eager), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)


@dataclass(frozen=True, kw_only=True)
class Ruled(Algorithm):
    """Trains by one rule; rows of its tensors belong to devices."""

    rule: LocalRule
    needs: frozenset[str] = frozenset()

    @property
    def need(self):
        return self.needs

    def local(self, jobs, w, epoch, fed):
        def mine(term):
            return term[jobs.client] if isinstance(term, torch.Tensor) else term

        r = self.rule
        return LocalRule(mine(r.lr), mine(r.scale), mine(r.prox), mine(r.drift), r.mask, r.sam)


class Problem:
    """Devices with unequal data; the model is a chain of these units with ReLU between."""

    def __init__(self, units, dtype, bias=True, augment=None, local_unit="epoch"):
        torch.manual_seed(sum(units))
        layers = [nn.Linear(a, b, bias=bias) for a, b in pairwise(units)]
        self.net = nn.Sequential(nn.Flatten(), *[part for layer in layers for part in (layer, nn.ReLU())][:-1])
        self.module = Classifier(self.net.to(dtype))
        self.layout = Layout(self.module)
        self.units, self.dtype, self.epochs = units, dtype, EPOCHS
        rng = np.random.default_rng(0)
        x = torch.from_numpy(rng.integers(0, 256, (sum(SIZES), units[0], 1), dtype=np.uint8))
        y = torch.from_numpy(rng.integers(0, units[-1], sum(SIZES)))
        clients = np.split(rng.permutation(sum(SIZES)), np.cumsum(SIZES)[:-1])
        keys = {"batch_size": 10, "classes": units[-1], "seed": 0, "local_unit": local_unit}
        self.batches = Batches(x, y, clients, lambda x: (x.to(dtype) - 100) / 90, augment, **keys)
        self.w = torch.from_numpy(rng.normal(size=(len(SIZES), self.layout.size))).to(dtype) / units[0] ** 0.5

    def random(self, *shape):
        return torch.from_numpy(np.random.default_rng(1).random(shape)).to(self.dtype)

    def train(self, engine, algo, devices, momentum=0.0, decay=0.0):
        some = torch.tensor(devices)
        fed = Fed(
            clients=len(SIZES),
            cohort=len(devices),
            rounds=1,
            epochs=3,
            lr=0.1,
            momentum=momentum,
            decay=decay,
            samples=torch.tensor(SIZES),
            layout=self.layout,
        )
        jobs = Jobs(
            client=some,
            version=torch.zeros_like(some),
            start=self.w[some],
            received=0.9 * self.w[some],
            samples=fed.samples[some],
            epochs=torch.tensor(self.epochs)[some],
            steps_per_epoch=torch.tensor([self.batches.steps_per_epoch(k) for k in devices]),
            server={},
            mine={},
        )
        trained, evaluations = engine.train(algo, fed, jobs, [k + 5 for k in devices])
        found = {f.name: getattr(trained, f.name) for f in fields(trained)}
        return {name: value for name, value in found.items() if value is not None} | {
            "evaluations": torch.tensor(evaluations)
        }


def rules(problem):
    """Every term alone, and all of them."""
    n, size = len(SIZES), problem.layout.size
    drift, mask = problem.random(n, size) - 0.5, problem.random(size) > 0.3
    each, head = problem.random(n) + 0.5, problem.layout.part("head")
    return {
        "plain": (LocalRule(), {}),
        "rates": (LocalRule(lr=0.1 * each, scale=2 - each), {}),
        "prox": (LocalRule(prox=0.5), {}),
        "prox of each and decay": (LocalRule(prox=each), {"decay": 0.1}),
        "drift": (LocalRule(drift=drift), {}),
        "prox, drift, rates": (LocalRule(lr=0.1 * each, prox=0.5, drift=drift), {}),
        "decay": (LocalRule(), {"decay": 0.1}),
        "momentum": (LocalRule(), {"momentum": 0.8}),
        "momentum and decay": (LocalRule(), {"momentum": 0.8, "decay": 0.1}),
        "mask": (LocalRule(mask=mask), {}),
        "head frozen, prox": (LocalRule(mask=~head, prox=0.5), {"decay": 0.1}),
        "sam": (LocalRule(sam=0.3), {}),
        "all": (LocalRule(0.1 * each, 2 - each, each, drift, mask, 0.3), {"momentum": 0.8, "decay": 0.1}),
    }


RULES = list(rules(Problem((6, 5, 3), torch.float64)))


def same(ours, theirs, tolerance):
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        torch.testing.assert_close(
            ours[name], value, rtol=0, atol=tolerance, msg=lambda text, name=name: f"{name} {text}"
        )


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


def noisy(x, rng):
    return x + torch.from_numpy(rng.integers(0, 9, (len(x), 1, 1), dtype=np.uint8))


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
    found = linears(Classifier(net))
    assert isinstance(found, str)
    assert reason in found

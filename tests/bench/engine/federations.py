"""Devices with unequal data and dense chains as models, and every rule they may train by."""

from dataclasses import dataclass, fields
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from algorithms.base import Algorithm, Fed, Jobs, LocalRule
from bench.learning.batches import Batches
from bench.learning.flat import Layout
from bench.learning.task_net import TaskNet
from bench.prepare import assemble, compose

NEEDS = frozenset({"last_gradient", "mean_gradient", "full_gradient", "start_loss", "prototypes"})
SIZES = [23, 1, 40, 7, 10, 33, 4]  # samples of each device, in batches of 10
EPOCHS = [3, 3, 2, 1, 3, 2, 3]
# of methods that train more in a round
SHORTER = {"fedagg": ("algo.J=2",), "fedbuff": ("algo.K=4",), "centralised": ("local_unit=step", "epochs=25")}


@cache
def composed(name: str) -> dict[str, Any]:
    """Hydra takes as long as the run that is tested: once for all engines and types."""
    small = ["dataset=digits", "clients=5", "cohort=4", "rounds=2", "epochs=2", "batch_size=17", "lr=0.05"]
    uneven = ["partition=dirichlet", "partition.alpha=1", "devices.rho=0.5", "test_samples=64"]
    return compose.config([*small, *uneven, f"algo={name}", *SHORTER.get(name, ()), "engine.workers=1"])


@cache
def path(name: str, dtype: torch.dtype, engine: type) -> list[torch.Tensor]:
    """The server's models in a run of some 50 steps a device, with stragglers and ragged batches."""
    config = composed(name)
    torch.set_default_dtype(dtype)
    try:
        loop = assemble.build({**config, "engine": {**config["engine"], "name": engine.name}}).loop
        assert type(loop.engine) is engine
        models = []
        while not loop.finished:
            loop.advance()
            models.append(loop.deployed())
    finally:
        torch.set_default_dtype(torch.float32)
    assert models[0].dtype == dtype
    return models


@dataclass(frozen=True, kw_only=True)
class Ruled(Algorithm):
    """Trains by one rule; rows of its tensors belong to devices."""

    rule: LocalRule
    needs: frozenset[str] = frozenset()

    @property
    def requires(self):
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
        self.module = TaskNet(self.net.to(dtype))
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
            memory={},
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


def noisy(x, rng):
    return x + torch.from_numpy(rng.integers(0, 9, (len(x), 1, 1), dtype=np.uint8))

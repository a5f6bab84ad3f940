"""Devices that train by a chain of convolutions end where eager's do, whatever the rule."""

import math
from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import nn

from algorithms.base import Algorithm, LocalRule
from bench import models
from bench.engine.conv import Convolutional
from bench.engine.eager import Eager
from bench.seeding import stream
from tests.bench.engine.chains import CLASSES, FORMS, federation, flat_after, force, start, trained


@dataclass(frozen=True, kw_only=True)
class Ruled(Algorithm):
    """Any rule, and everything there is to need."""

    rule: LocalRule = field(default_factory=LocalRule)

    @property
    def requires(self):
        return frozenset({"last_gradient", "mean_gradient", "full_gradient", "start_loss", "prototypes"})

    def local(self, jobs, w, epoch, fed):
        rows = {}
        for name in ("lr", "scale", "prox", "drift"):
            value = getattr(self.rule, name)
            rows[name] = value[jobs.client] if isinstance(value, torch.Tensor) else value
        return replace(self.rule, **rows)


ROWS = torch.sin(torch.arange(3.0 * 1000, dtype=torch.float64)).view(3, 1000)
RULES = {
    "plain": {},
    "momentum and decay": {"momentum": 0.9, "decay": 0.01},
    "rates": {"lr": torch.tensor([0.1, 0.01, 0.03], dtype=torch.float64)},
    "scale": {"scale": torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)},
    "prox": {"prox": 0.3, "momentum": 0.5},
    "drift": {"drift": 0.1 * ROWS},
    "mask": {"mask": ROWS[0] > 0, "decay": 0.1},
    "sam": {"sam": 0.05},
    "all": {
        "lr": torch.tensor([0.1, 0.01, 0.03], dtype=torch.float64),
        "scale": 0.7,
        "prox": torch.tensor([0.3, 0.0, 0.1], dtype=torch.float64),
        "drift": 0.1 * ROWS,
        "mask": ROWS[1] > 0,
        "sam": 0.05,
        "momentum": 0.9,
        "decay": 0.01,
    },
}


@pytest.mark.parametrize("name", RULES)
def test_every_rule_and_need_is_what_eager_makes_of_it(name):
    terms = dict(RULES[name])
    kernel = {key: terms.pop(key) for key in ("momentum", "decay") if key in terms}
    net = flat_after(nn.Sequential(nn.Conv2d(3, 6, 3), nn.MaxPool2d(2), nn.ReLU()), (3, 12, 12))
    module, layout, batches = federation(net, (3, 12, 12), [12, 5, 6])
    cut = {key: value[..., : layout.size] if key in ("drift", "mask") else value for key, value in terms.items()}
    algo, w = Ruled(rule=LocalRule(**cut)), start(module, layout)
    found, expected = (
        trained(engine(module, layout, batches), algo, w, [0, 1, 2], [3, 2, 1], spread=0.01, **kernel)
        for engine in (Convolutional, Eager)
    )
    for key, value in vars(expected).items():
        torch.testing.assert_close(getattr(found, key), value, rtol=0, atol=1e-10, msg=lambda m, key=key: f"{key}: {m}")
    assert expected.end.ne(w).any(1).all()


MODELS = {
    "lenet5": ((1, 16, 16), 0.5, {}),
    "lenet5_3x3": ((3, 14, 13), 1.0, {}),
    "mnist_cnn": ((1, 12, 12), 0.25, {}),
    "cifar10_cnn": ((3, 8, 8), 0.25, {"dropout": 0.0}),
    "fed2a_cnn": ((3, 14, 14), 0.25, {"channels": [32, 64], "hidden": [32, 16]}),
    "alexnet": ((3, 8, 8), 0.05, {"dropout": 0.0}),
}


def network(name):
    shape, width, keys = MODELS[name]
    return shape, models.build({"name": name, "width": width, **keys}, shape, CLASSES, stream(0, "init"))


@pytest.mark.parametrize(("name", "form"), [*((name, None) for name in MODELS), *(("lenet5", form) for form in FORMS)])
def test_fifty_steps_lead_where_eagers_do(name, form, monkeypatch):
    """To 1e-5 of the way in float32 (found: 1e-6), to 1e-12 in float64 (found: 2e-15)."""
    if form:
        force(monkeypatch, form)
    for dtype in (torch.float32, torch.float64):
        shape, net = network(name)
        module, layout, batches = federation(net, shape, [50], batch_size=5, dtype=dtype)
        w = start(module, layout)
        found, expected = (
            trained(engine(module, layout, batches), Algorithm(), w, [0], [5], momentum=0.5, lr=0.02)
            for engine in (Convolutional, Eager)
        )
        assert expected.steps.tolist() == [50]
        error, way = (found.end - expected.end).norm(), (expected.end - w).norm()
        assert error < (1e-5 if dtype is torch.float32 else 1e-12) * way
        assert math.isclose(found.loss, expected.loss, rel_tol=1e-5 if dtype is torch.float32 else 1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_a_device_does_not_see_the_others(form, monkeypatch):
    """To the bit: alone, in any company, after larger and smaller batches."""
    force(monkeypatch, form)
    shape, net = network("lenet5")
    module, layout, batches = federation(net, shape, [7, 20, 1, 13, 11], batch_size=8, dtype=torch.float32)
    engine, w = Convolutional(module, layout, batches), start(module, layout)
    together = trained(engine, Ruled(), w, [0, 1, 2, 3, 4], [1, 2, 3, 1, 2], momentum=0.9)
    for clients, epochs in (([4, 2], [2, 3]), ([3], [1]), ([1, 0], [2, 1])):
        for fresh in (engine, Convolutional(module, layout, batches)):
            apart = trained(fresh, Ruled(), w, clients, epochs, momentum=0.9)
            for key in ("end", "loss", "last_gradient", "mean_gradient", "full_gradient"):
                assert torch.equal(getattr(apart, key), getattr(together, key)[clients]), key


def test_augmented_batches_are_drawn_as_eager_draws_them():
    def augment(x, rng):
        return torch.flip(x, [-1]) if rng.random() < 0.5 else x + rng.normal()

    shape, net = network("lenet5")
    module, layout, batches = federation(net, shape, [20, 13], augment=augment)
    w = start(module, layout)
    found, expected = (
        trained(engine(module, layout, batches), Algorithm(), w, [0, 1], [2, 2]) for engine in (Convolutional, Eager)
    )
    torch.testing.assert_close(found.end, expected.end, rtol=0, atol=1e-10)

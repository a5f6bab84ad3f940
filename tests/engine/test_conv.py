"""The chain of convolutions against autograd and the eager engine."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from torch import nn

from algorithms.base import Algorithm, Fed, Jobs, LocalRule
from bench import models
from bench.batches import Batches
from bench.engine import compile as compiler
from bench.engine import structure
from bench.engine.conv import Chain
from bench.engine.convolutions import Columns, Torch
from bench.engine.eager import Eager
from bench.engine.layers import Relu
from bench.engine.spectral import Spectral
from bench.flat import Layout, trainable
from bench.seeding import stream
from bench.speed import Classifier

CLASSES = 4


class Whole(Classifier):
    """With the `forward` that prototypes ask for."""

    def forward(self, x):
        return self.net(x)


FORMS = {"columns": (True, False), "spectral": (False, True), "torch": (False, False)}


def force(monkeypatch, form):
    few, pays = FORMS[form]
    monkeypatch.setattr(compiler, "few", lambda layer: few)
    monkeypatch.setattr(compiler, "pays", lambda at, batch: pays and at.stride == (1, 1))


def flat_after(features, shape, *rest):
    units = features(torch.zeros(1, *shape)).numel()
    return nn.Sequential(features, nn.Flatten(), *rest, nn.Linear(units, CLASSES))


def uneven():
    return nn.Sequential(
        nn.Conv2d(3, 5, (5, 3), padding=(2, 1)), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(5, 4, (2, 3)), nn.ReLU()
    )


def same():
    return nn.Sequential(
        nn.Conv2d(3, 4, (4, 3), padding="same"), nn.MaxPool2d(3, 2), nn.ReLU(), nn.Conv2d(4, 6, 3, padding="valid")
    )


def strided():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=(2, 1), padding=(1, 2), bias=False),
        nn.ReLU(),
        nn.Conv2d(4, 5, 2, stride=2, padding=1),
        nn.MaxPool2d((1, 2)),
    )


def averaged():
    return nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))


def pooled_twice():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.ReLU()
    )


def pooled_first():
    return nn.Sequential(nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 3, padding=2), nn.Identity(), nn.ReLU())


NETS = [uneven, same, strided, averaged, pooled_twice, pooled_first]


def federation(net, shape, sizes, batch_size=5, dtype=torch.float64, augment=None, seed=0, images=None):
    module = Whole(net).to(dtype)
    rng = np.random.default_rng(seed)
    total = sum(sizes)
    x = torch.from_numpy(rng.normal(size=(total, *shape))).to(dtype) if images is None else images.to(dtype)
    y = torch.from_numpy(rng.integers(0, CLASSES, total))
    clients = np.split(np.arange(total), np.cumsum(sizes)[:-1])
    batches = Batches(x, y, clients, lambda x: x, augment, batch_size=batch_size, classes=CLASSES, seed=0)
    return module, Layout(module), batches


def start(module, layout):
    return layout.rows(layout.flatten(trainable(module))[None])[0].clone()


def asked(module, layout, batches, index):
    """Loss and gradient by autograd, of the module as it is."""
    x, y = batches.load(index)
    loss = nn.functional.cross_entropy(module.net(x), y)
    return loss.detach(), layout.flatten(torch.autograd.grad(loss, trainable(module)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("build", NETS, ids=lambda build: build.__name__)
def test_gradients_are_autograds(build, form, monkeypatch):
    force(monkeypatch, form)
    torch.manual_seed(0)
    shape = (3, 11, 9)
    module, layout, batches = federation(flat_after(build(), shape, nn.Dropout(0.0)), shape, [6, 1], batch_size=6)
    w, index = start(module, layout), [batches.clients[0], batches.clients[1], batches.clients[0][:3]]
    expected = [asked(module, layout, batches, i) for i in index]
    engine = Chain(module, layout, batches)
    for i, (loss, g) in zip(index, expected, strict=True):
        found_loss, found = engine.gradient(w, i)
        torch.testing.assert_close(found_loss, loss, rtol=0, atol=1e-10)
        torch.testing.assert_close(found, g, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("form", "kind"), zip(FORMS, [Columns, Spectral, Torch], strict=True), ids=FORMS)
def test_a_form_that_is_asked_for_is_used(form, kind, monkeypatch):
    """So that the test above tests three."""
    force(monkeypatch, form)
    module, layout, batches = federation(flat_after(uneven(), (3, 11, 9)), (3, 11, 9), [6])
    steps = Chain(module, layout, batches).steps
    assert [type(s) for s in steps if isinstance(s, Columns | Spectral | Torch)] == [kind, kind]


def test_a_batch_larger_than_usual_has_the_mean_gradient(monkeypatch):
    module, layout, batches = federation(flat_after(uneven(), (3, 11, 9)), (3, 11, 9), [17], batch_size=5)
    loss, g = asked(module, layout, batches, batches.clients[0])
    found_loss, found = Chain(module, layout, batches).gradient(start(module, layout), batches.clients[0])
    torch.testing.assert_close(found_loss, loss, rtol=0, atol=1e-10)
    torch.testing.assert_close(found, g, rtol=0, atol=1e-10)


@pytest.mark.parametrize("form", ["columns", "torch"])
def test_of_equal_maxima_the_first_gets_the_gradient(form, monkeypatch):
    """Whole numbers in image and weights: equal windows abound, and no rounding hides them."""
    force(monkeypatch, form)
    shape = (1, 8, 8)
    net = flat_after(nn.Sequential(nn.Conv2d(1, 3, 3), nn.MaxPool2d(2), nn.ReLU()), shape)
    rng = np.random.default_rng(1)
    nn.init.constant_(net[0][0].weight, 1.0)
    images = torch.from_numpy(rng.integers(0, 2, (6, *shape)))
    module, layout, batches = federation(net, shape, [6], batch_size=6, images=images)
    _, g = asked(module, layout, batches, batches.clients[0])
    _, found = Chain(module, layout, batches).gradient(start(module, layout), batches.clients[0])
    torch.testing.assert_close(found, g, rtol=0, atol=1e-12)


def test_a_chain_without_convolution_is_one_too():
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 7, bias=False), nn.ReLU(), nn.Linear(7, CLASSES))
    module, layout, batches = federation(net, (3, 2, 2), [6], batch_size=6)
    _, g = asked(module, layout, batches, batches.clients[0])
    _, found = Chain(module, layout, batches).gradient(start(module, layout), batches.clients[0])
    torch.testing.assert_close(found, g, rtol=0, atol=1e-12)


@pytest.mark.parametrize("frozen", [0, 3], ids=["first", "second"])
def test_a_frozen_layer_stays_and_the_others_learn(frozen):
    net = flat_after(uneven(), (3, 11, 9))
    net[0][frozen].requires_grad_(False)
    module, layout, batches = federation(net, (3, 11, 9), [5])
    _, g = asked(module, layout, batches, batches.clients[0])
    _, found = Chain(module, layout, batches).gradient(start(module, layout), batches.clients[0])
    torch.testing.assert_close(found, g, rtol=0, atol=1e-10)


def test_a_layer_that_is_used_twice_is_no_chain():
    """Its two gradients would have to be added."""
    layer = nn.Linear(4, 4)
    assert structure.chain(Whole(nn.Sequential(nn.Flatten(), layer, nn.ReLU(), layer))) == "it uses a layer twice"


def test_what_is_no_chain_is_refused():
    module, layout, batches = federation(nn.Sequential(nn.Flatten(), nn.Linear(4, CLASSES), nn.Tanh()), (1, 2, 2), [2])
    with pytest.raises(ValueError, match="Tanh"):
        Chain(module, layout, batches)


def test_relu_waits_for_the_pooling():
    order = compiler.pool_first([a := nn.Conv2d(1, 1, 1), b := nn.ReLU(), nn.ReLU(), c := nn.MaxPool2d(2)])
    assert order == [a, c, b]


@dataclass(frozen=True, kw_only=True)
class Ruled(Algorithm):
    """Any rule, and everything there is to need."""

    rule: LocalRule = field(default_factory=LocalRule)

    @property
    def need(self):
        return frozenset({"last_gradient", "mean_gradient", "full_gradient", "start_loss", "prototypes"})

    def local(self, jobs, w, epoch, fed):
        rows = {}
        for name in ("lr", "scale", "prox", "drift"):
            value = getattr(self.rule, name)
            rows[name] = value[jobs.client] if isinstance(value, torch.Tensor) else value
        return replace(self.rule, **rows)


def trained(engine, algo, w, clients, epochs, momentum=0.0, decay=0.0, spread=0.0, lr=0.05):
    """What the devices `clients` train from w; `spread`: each received another model than it starts from."""
    layout, everyone = engine.layout, len(engine.batches.clients)
    samples = w.new_tensor([len(c) for c in engine.batches.clients])
    fed = Fed(everyone, everyone, 1, max(epochs), lr, momentum, decay, samples, layout)
    k = torch.tensor(clients)
    jobs = Jobs(
        client=k,
        version=torch.zeros_like(k),
        start=w.expand(len(k), -1),
        received=w + spread * (1 + k[:, None]) * torch.sin(torch.arange(len(w), dtype=w.dtype)),
        samples=samples[k],
        epochs=torch.tensor(epochs),
        steps_per_epoch=torch.ones_like(k),
        server={},
        mine={},
    )
    return engine.train(algo, fed, jobs, [0] * len(clients))[0]


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
        for engine in (Chain, Eager)
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
            for engine in (Chain, Eager)
        )
        assert expected.steps.tolist() == [50]
        error, way = (found.end - expected.end).norm(), (expected.end - w).norm()
        assert error < (1e-5 if dtype is torch.float32 else 1e-12) * way
        assert math.isclose(found.loss, expected.loss, rel_tol=1e-5 if dtype is torch.float32 else 1e-12)


@pytest.mark.parametrize(
    ("name", "shape", "batch", "forms"),
    [
        ("lenet5", (1, 28, 28), 64, [Columns, Spectral]),
        ("lenet5_3x3", (3, 32, 32), 64, [Columns, Columns]),
        ("fed2a_cnn", (3, 32, 32), 48, [Torch, Spectral]),
        ("fed2a_cnn", (3, 32, 32), 1, [Torch, Torch]),
        ("cifar10_cnn", (3, 32, 32), 64, [Torch, Torch, Torch]),
    ],
)
def test_the_form_of_a_convolution_follows_from_its_sizes(name, shape, batch, forms):
    keys = {"dropout": 0.0, "channels": [64, 128], "hidden": [8, 8]}
    net = models.build({"name": name, "width": 1.0, **keys}, shape, CLASSES, stream(0, "init"))
    steps = Chain(*federation(net, shape, [2], batch_size=batch, dtype=torch.float32)).steps
    assert [type(step) for step in steps if isinstance(step, Columns | Spectral | Torch)] == forms


@pytest.mark.parametrize("form", FORMS)
def test_a_device_does_not_see_the_others(form, monkeypatch):
    """To the bit: alone, in any company, after larger and smaller batches."""
    force(monkeypatch, form)
    shape, net = network("lenet5")
    module, layout, batches = federation(net, shape, [7, 20, 1, 13, 11], batch_size=8, dtype=torch.float32)
    engine, w = Chain(module, layout, batches), start(module, layout)
    together = trained(engine, Ruled(), w, [0, 1, 2, 3, 4], [1, 2, 3, 1, 2], momentum=0.9)
    for clients, epochs in (([4, 2], [2, 3]), ([3], [1]), ([1, 0], [2, 1])):
        for fresh in (engine, Chain(module, layout, batches)):
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
        trained(engine(module, layout, batches), Algorithm(), w, [0, 1], [2, 2]) for engine in (Chain, Eager)
    )
    torch.testing.assert_close(found.end, expected.end, rtol=0, atol=1e-10)


def test_relu_knows_its_zeros():
    relu = Relu(torch.zeros(1))
    relu.forward(torch.tensor([-1.0, 0.0, 2.0]))
    assert relu.backward(torch.ones(3), True).tolist() == [0, 0, 1]

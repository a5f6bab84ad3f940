"""engine=vmap against engine=eager: the same local training, and bits that do not depend on a device's company."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

from algorithms.base import Algorithm, Fed, LocalRule, Schedule, Upload
from bench.engine.eager import Eager
from bench.engine.vmap import Vmap
from bench.errors import UserError
from bench.learning.batches import Batches
from bench.learning.flat import Layout, trainable
from bench.models import deep
from bench.prepare import compose
from bench.prepare.assemble import build
from bench.prepare.registry import classes
from bench.seeding import stream
from bench.simulation.devices import Devices
from bench.simulation.loop import FederatedLoop
from bench.simulation.schedule import Rules

SIZES = (1, 7, 12, 5, 10, 3, 9, 4)  # samples of each device: no stack is full, no batch fits
ALGORITHMS = sorted(classes("algo"))


class Residual(nn.Module):
    """No chain: a skip connection and a GroupNorm."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(5, 6)
        self.norm = nn.GroupNorm(1, 6)
        self.deeper = nn.Linear(6, 6)
        self.out = nn.Linear(6, 3)

    def forward(self, x):
        hidden = torch.tanh(self.norm(self.inner(x)))
        return self.out(hidden + torch.tanh(self.deeper(hidden)))

    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self(batch[0]), batch[1], reduction="none")


def federation(engine_class, algo, module=None, dtype=torch.float64, augment=None, batch=None, epochs=2, **more):
    torch.manual_seed(0)
    module = (module or Residual()).to(dtype)
    layout, total = Layout(module), sum(SIZES)
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((total, 5))).to(dtype)
    y = torch.from_numpy(rng.integers(0, 3, total))
    clients = np.split(np.arange(total), np.cumsum(SIZES)[:-1])
    batches = Batches(x, y, clients, lambda x: x, augment, batch_size=4, classes=3, seed=0)
    constants = {"clients": 8, "cohort": 8, "rounds": 4, "epochs": epochs, "lr": 0.1, "momentum": 0.0, "decay": 0.0}
    fed = Fed(**constants | more, samples=torch.tensor(SIZES, dtype=dtype), layout=layout)
    rules = Rules(Schedule(8, 8), rounds=4, batch=batch)
    w0 = layout.flatten(trainable(module))
    return FederatedLoop(algo, fed, engine_class(module, layout, batches), Devices(8, 0), rules, w0)


@dataclass(frozen=True, kw_only=True)
class Terms(Algorithm):
    """Every term of the rule, different for each device, and all that an engine may be asked for."""

    sam: float = 0.0
    masked: bool = False

    @property
    def requires(self):
        return frozenset({"last_gradient", "mean_gradient", "full_gradient", "start_loss", "trace"})

    def extra_up(self, fed):
        return 3 * fed.layout.size + 4

    def local(self, jobs, w, epoch, fed):
        one = 1 + jobs.client.to(w.dtype)
        return LocalRule(
            lr=0.02 * one,
            scale=1 / one,
            prox=0.1 * one,
            drift=0.01 * one[:, None] * torch.sin(torch.arange(w.shape[1]).to(w)),
            mask=torch.arange(w.shape[1]) % 3 > 0 if self.masked else None,
            sam=self.sam,
        )

    def upload(self, jobs, trained, fed):
        names = ("last_gradient", "mean_gradient", "full_gradient", "start_loss", "steps", "effective_steps", "loss")
        return Upload(trained.end - jobs.received, extra={name: getattr(trained, name) for name in names})

    def aggregate(self, server, updates, fed):
        trace = {"trace_w": updates.trace.w, "trace_gradient": updates.trace.gradient}
        vars(self)["found"] = updates.extra | trace  # to be compared
        return super().aggregate(server, updates, fed)


def run(loop):
    while not loop.finished:
        loop.advance()
    return loop.server | vars(loop.algo.method).get("found", {})


@pytest.mark.parametrize(
    ("algo", "more"),
    [
        (Terms(), {}),
        (Terms(masked=True), {}),
        (Terms(sam=0.05), {}),
        (Terms(sam=0.05, masked=True), {"momentum": 0.9, "decay": 0.01}),
    ],
)
def test_every_term_and_need_is_what_eager_gives(algo, more):
    there, here = (run(federation(engine, algo, **more)) for engine in (Eager, Vmap))
    assert here.keys() == there.keys()
    for name, value in there.items():
        torch.testing.assert_close(here[name], value, rtol=1e-10, atol=1e-12, msg=lambda text: f"{name}: {text}")  # noqa: B023


def test_fifty_steps_in_float32_stay_within_5e_6_of_eager():
    """17 epochs of up to three steps, once; a GroupNorm of few values amplifies rounding from there on."""
    loops = [federation(engine, Algorithm(), dtype=torch.float32, epochs=17) for engine in (Eager, Vmap)]
    start = loops[0].server["w"].clone()
    for loop in loops:
        loop.advance()
    there, here = (loop.server["w"] for loop in loops)
    assert (here - there).abs().max() < 5e-6
    assert (here - start).abs().max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_fifty_steps_of_every_algorithm_stay_within_2e_5_of_eager(name):
    """Two rounds of 25 steps of float32, devices that are late among them; so do the clients' losses and traffic."""
    small = ["dataset=digits", "clients=6", "cohort=3", "rounds=2", "epochs=25", "local_unit=step", "batch_size=20"]
    found = []
    for engine in ("eager", "vmap"):
        keys = [f"algo={name}", f"engine={engine}", "devices.rho=0.5", "test_samples=8", *small]
        loop = build(compose.config(keys)).loop
        rows = [loop.advance() for _ in range(2)]
        found.append((loop.server["w"], rows[-1]))
    (there, row), (here, again) = found
    assert (here - there).abs().max() < 2e-5
    for key in ("bytes_up", "gradient_evaluations", "virtual_seconds", "staleness_mean"):
        assert again[key] == pytest.approx(row[key], rel=0, abs=0, nan_ok=True)
    assert again["train_loss"] == pytest.approx(row["train_loss"], rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_device_gets_the_same_bits_in_any_company(dtype):
    algo = Terms(sam=0.05)
    whole, single, threes = (run(federation(Vmap, algo, dtype=dtype, batch=batch, momentum=0.9)) for batch in (8, 1, 3))
    for name, value in whole.items():
        if not name.startswith("trace"):
            assert torch.equal(single[name], value), name
            assert torch.equal(threes[name], value), name


@pytest.mark.parametrize(
    ("shape", "net"),
    [
        ((5,), nn.Sequential(nn.Linear(5, 31), nn.GELU(), nn.Linear(31, 3))),
        ((7, 7, 7), nn.Sequential(nn.Conv2d(7, 5, 3), nn.GELU(), nn.Flatten(), nn.Linear(125, 3))),
    ],
)
@pytest.mark.parametrize("batch_size", [1, 3, 10, 16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_places_that_a_device_may_get_give_it_the_same_bits(shape, net, batch_size, dtype):
    """Odd sizes, so that the places of a stack lie differently to 64-byte boundaries."""
    module = Wrapped(net).to(dtype)
    layout = Layout(module)
    x, y = torch.randn(40, *shape, generator=torch.Generator().manual_seed(0)).to(dtype), torch.arange(40) % 3
    batches = Batches(x, y, [np.arange(13)] * 80, lambda x: x, batch_size=batch_size, classes=3, seed=0)
    engine, fed = Vmap(module, layout, batches), _fed(layout)
    assert engine.stack == 64
    client, count = 3, 3
    w = layout.rows(layout.flatten(trainable(module)).expand(60, -1))

    def trained(clients):
        """The models of `clients`, which all train on the batches of the first."""
        group = engine._group(fed, clients, [0] * len(clients), [1] * len(clients), w[: len(clients)], w, frozenset())
        group.batches = [group.batches[0]] * len(clients)
        engine.epoch(group, 0, LocalRule(), fed)
        return group.w

    alone = trained([client])[0]
    assert not torch.equal(alone, w[0])
    together = trained([client] * count + list(range(20, 60)))
    for k in range(count):
        assert torch.equal(together[k], alone)


class Wrapped(nn.Module):
    def __init__(self, net, reduction="none"):
        super().__init__()
        self.net, self.reduction = net, reduction

    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1], reduction=self.reduction)


def _fed(layout):
    constants = {"clients": 11, "cohort": 11, "rounds": 1, "epochs": 1, "lr": 0.1, "momentum": 0.0, "decay": 0.0}
    return Fed(**constants, samples=torch.ones(11), layout=layout)


def test_augmentation_draws_what_eager_draws():
    def shaken(x, rng):
        return x + torch.from_numpy(rng.standard_normal(x.shape))

    there, here = (run(federation(engine, Algorithm(), augment=shaken))["w"] for engine in (Eager, Vmap))
    torch.testing.assert_close(here, there, rtol=1e-10, atol=1e-12)


def test_a_residual_network_of_convolutions_is_what_eager_gives():
    def gradient(engine_class):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            net = deep.resnet20({"width": 0.125}, (3, 8, 8), 4)
        module = Wrapped(net).double()
        layout = Layout(module)
        rng = stream(0, "data")
        x, y = torch.from_numpy(rng.standard_normal((9, 3, 8, 8))), torch.from_numpy(rng.integers(0, 4, 9))
        clients = [np.arange(5), np.arange(5, 9)]
        batches = Batches(x, y, clients, lambda x: x, batch_size=2, classes=4, seed=0)
        engine = engine_class(module, layout, batches)
        fed = replace(_fed(layout), clients=2, cohort=2, samples=torch.tensor([5.0, 4.0]).double())
        w0 = layout.flatten(trainable(module))
        rules = Rules(Schedule(2, 2), rounds=1)
        return run(FederatedLoop(Algorithm(), fed, engine, Devices(2, 0), rules, w0))["w"]

    torch.testing.assert_close(gradient(Vmap), gradient(Eager), rtol=1e-10, atol=1e-12)


class Centred(Wrapped):
    def training_step(self, batch, batch_idx):
        losses = super().training_step(batch, batch_idx)
        return losses - 0.5 * losses.mean()


class Noisy(Wrapped):
    def training_step(self, batch, batch_idx):
        return super().training_step((batch[0] + torch.randn_like(batch[0]), batch[1]), batch_idx)


class Branching(Wrapped):
    def training_step(self, batch, batch_idx):
        losses = super().training_step(batch, batch_idx)
        return losses * 2 if bool(losses.sum() > 0) else losses


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Wrapped(nn.Linear(5, 3), "mean"), "one loss for the batch"),
        (Wrapped(nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 3))), "Dropout(p=0.5"),
        (Centred(nn.Linear(5, 3)), "depends on the others"),
        (Noisy(nn.Linear(5, 3)), "random"),
        (Branching(nn.Linear(5, 3)), "vmap cannot run"),
    ],
)
def test_what_vmap_cannot_train_is_refused_with_the_engine_that_can(module, words):
    with pytest.raises(UserError) as refusal:
        federation(Vmap, Algorithm(), module)
    assert words in str(refusal.value)
    assert "engine=eager" in str(refusal.value)


def test_dropout_that_drops_nothing_is_no_reason_to_refuse():
    federation(Vmap, Algorithm(), Wrapped(nn.Sequential(nn.Dropout(0.0), nn.Linear(5, 3)))).advance()

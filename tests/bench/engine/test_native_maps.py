"""Convolutions in C: their gradients are autograd's, in every rule, and to the same bits on every processor."""

import os

import numpy as np
import pytest
import torch
from torch import nn

from algorithms.base import Algorithm, LocalRule
from bench import compiled
from bench.engine import choose, native
from bench.engine.conv import Convolutional
from bench.engine.eager import Eager
from bench.engine.native import Native
from bench.engine.stages import parts
from bench.errors import UserError
from bench.learning.evaluate import Evaluate
from bench.learning.flat import trainable
from bench.learning.task_net import TaskNet
from bench.prepare import compose
from bench.prepare.assemble import build
from tests.bench.engine import test_conv
from tests.bench.engine.chains import CLASSES, federation, flat_after, start, trained
from tests.bench.engine.test_conv_training import MODELS, RULES, Ruled, network

MISSING = found if isinstance(found := compiled.library(), str) else None
pytestmark = pytest.mark.skipif(
    MISSING is not None and "FEDBENCH_COMPILER" not in os.environ, reason=f"engine=native: {MISSING}"
)
SHAPE = (3, 11, 9)


def many_channels():
    """More than are taken together, and numbers that leave every rest; a kernel wider than a tile."""
    return nn.Sequential(
        nn.Conv2d(3, 13, (2, 7), padding=(0, 3)), nn.ReLU(), nn.Conv2d(13, 23, 3, padding=1), nn.MaxPool2d(2)
    )


def small_map():
    """Kernel and padding larger than what is left of the map, and strides that leave pixels unseen."""
    return nn.Sequential(
        nn.Conv2d(3, 4, 2, stride=3), nn.ReLU(), nn.Conv2d(4, 5, 5, padding=2), nn.Conv2d(5, 3, 4, stride=5, padding=4)
    )


def pools():
    """Windows that overlap, that leave pixels out, and one after the other."""
    return nn.Sequential(
        nn.Conv2d(3, 5, 3, padding=2), nn.MaxPool2d((3, 2), 1), nn.MaxPool2d(1, 2), nn.ReLU(), nn.MaxPool2d(2)
    )


def averaged_bare():
    return nn.Sequential(nn.Conv2d(3, 6, 3, bias=False), nn.AdaptiveAvgPool2d(1), nn.ReLU())


NETS = [*test_conv.NETS, many_channels, small_map, pools, averaged_bare]


def problem(build, sizes, dtype=torch.float32, **keys):
    torch.manual_seed(0)
    return federation(flat_after(build(), SHAPE), SHAPE, sizes, dtype=dtype, **keys)


@pytest.mark.parametrize("longest", [64, 32, 16])
@pytest.mark.parametrize("build", NETS, ids=lambda build: build.__name__)
def test_gradients_are_those_of_double_precision(build, longest, monkeypatch):
    """To 2e-6 of their length (found: 3e-7, as torch's own in single precision)."""
    monkeypatch.setattr(native, "LONGEST", longest)
    sizes = [1, 5, 16, 17, 33]
    exact = problem(build, sizes, torch.float64, batch_size=33)
    ours = problem(build, sizes, batch_size=33)
    engine, w = Native(*ours), start(*ours[:2])
    for index in exact[2].clients:
        expected_loss, expected = test_conv.asked(*exact, index)
        loss, g = engine.gradient(w, index)
        assert abs(loss - expected_loss) < 2e-6
        assert (g - expected).norm() < 2e-6 * expected.norm()
        for part, whole in zip(exact[1].views(g - expected), exact[1].views(expected), strict=True):
            assert part.norm() < 1e-5 * whole.norm() + 1e-8


@pytest.mark.parametrize("build", NETS, ids=lambda build: build.__name__)
def test_answers_are_those_of_double_precision_and_of_a_sample_alone(build, monkeypatch):
    """To 2e-6 of the largest; to the same bits for every length of vectors, and in any company."""
    exact, ours = (problem(build, [150], dtype) for dtype in (torch.float64, torch.float32))
    engine, w, x = Native(*ours), start(*ours[:2]), ours[2].x
    with torch.no_grad():
        expected = exact[0].net(exact[2].x)
    found = engine.answers(w, x)
    assert (found - expected).abs().max() < 2e-6 * expected.abs().max()
    for some in (slice(0, 1), slice(3, 70), slice(17, 33)):
        assert torch.equal(engine.answers(w, x[some]), found[some])
    monkeypatch.setattr(native, "LONGEST", 32)
    assert torch.equal(engine.answers(w, x), found)
    monkeypatch.setattr(native, "LONGEST", 16)
    assert (engine.answers(w, x) - expected).abs().max() < 2e-6 * expected.abs().max()


def test_a_run_evaluates_by_the_kernels_it_trains_with():
    words = ["dataset=fmnist", "dataset.source=synthetic", "model=lenet5", "model.width=0.25", "rounds=1", "clients=4"]
    config = compose.config([*words, "cohort=2", "batch_size=20", "test_samples=1100", "engine.workers=1"])
    parts = build(config)
    assert parts.loop.engine.name == "native"
    evaluate, w = parts.evaluate.evaluate, parts.loop.server["w"]
    assert evaluate.model == parts.loop.engine.answers
    plain = Evaluate(parts.module, parts.loop.engine.layout, torch.cat(evaluate._x), evaluate.y, evaluate.inputs)
    torch.testing.assert_close(evaluate.sums(w, [0, 1]), plain.sums(w, [0, 1]), rtol=1e-5, atol=0)
    assert torch.equal(evaluate.answers(w)[1], plain.answers(w)[1])


@pytest.mark.parametrize("name", RULES)
def test_every_rule_and_need_is_that_of_double_precision(name):
    """Against the chain in float64, which is autograd's to 1e-10 (test_conv_training.py)."""
    terms = dict(RULES[name])
    kernel = {key: terms.pop(key) for key in ("momentum", "decay") if key in terms}
    found = []
    for engine, dtype in ((Native, torch.float32), (Convolutional, torch.float64)):
        net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.MaxPool2d(2), nn.ReLU())
        module, layout, batches = federation(flat_after(net, (3, 12, 12)), (3, 12, 12), [12, 5, 6], dtype=dtype)
        w = start(module, layout).copy_(torch.sin(torch.arange(layout.size)) / 8)
        cut = {}
        for key, value in terms.items():
            value = value[..., : layout.size] if key in ("drift", "mask") else value
            double = isinstance(value, torch.Tensor) and value.is_floating_point()
            cut[key] = value.to(dtype) if double else value
        algo = Ruled(rule=LocalRule(**cut))
        found.append(trained(engine(module, layout, batches), algo, w, [0, 1, 2], [3, 2, 1], spread=0.01, **kernel))
    for key, value in vars(found[1]).items():
        ours = getattr(found[0], key)
        torch.testing.assert_close(
            ours, value, rtol=0, atol=3e-5, check_dtype=False, msg=lambda m, key=key: f"{key}: {m}"
        )


@pytest.mark.parametrize("name", MODELS)
def test_fifty_steps_lead_where_eagers_do(name):
    """To 1e-5 of the way (found: 1e-6)."""
    shape, net = network(name)
    module, layout, batches = federation(net, shape, [50], batch_size=5, dtype=torch.float32)
    w = start(module, layout)
    found, expected = (
        trained(engine(module, layout, batches), Algorithm(), w, [0], [5], momentum=0.5, lr=0.02)
        for engine in (Native, Eager)
    )
    assert expected.steps.tolist() == [50]
    assert (found.end - expected.end).norm() < 1e-5 * (expected.end - w).norm()


@pytest.mark.parametrize("build", NETS, ids=lambda build: build.__name__)
def test_processors_with_shorter_vectors_take_the_same_steps(build, monkeypatch):
    """To the bit where they have fused products, as all with AVX2 do."""
    parts = problem(build, [20, 1, 34], batch_size=17)
    w, algo, found = start(*parts[:2]), Ruled(rule=LocalRule(prox=0.1)), {}
    for longest in (64, 32):
        monkeypatch.setattr(native, "LONGEST", longest)
        found[longest] = trained(Native(*parts), algo, w, [0, 1, 2], [2] * 3)
    for key in ("end", "loss", "last_gradient", "mean_gradient", "full_gradient"):
        assert torch.equal(getattr(found[32], key), getattr(found[64], key)), key


@pytest.mark.parametrize("together", [native.TOGETHER, 1])
@pytest.mark.parametrize("augment", [None, lambda x, rng: x + rng.integers(0, 2)], ids=["plain", "augmented"])
def test_a_device_does_not_see_the_others(augment, together, monkeypatch):
    """To the bit: alone, in any company, after larger and smaller batches."""
    parts = problem(test_conv.uneven, [7, 20, 1, 13, 11], batch_size=8, augment=augment)
    w = start(*parts[:2])
    everyone = trained(Native(*parts), Ruled(), w, [0, 1, 2, 3, 4], [1, 2, 3, 1, 2], momentum=0.9)
    monkeypatch.setattr(native, "TOGETHER", together)
    engine = Native(*parts)
    for clients, epochs in (([4, 2], [2, 3]), ([3], [1]), ([1, 0], [2, 1])):
        apart = trained(engine, Ruled(), w, clients, epochs, momentum=0.9)
        for key in ("end", "loss", "last_gradient", "mean_gradient", "full_gradient"):
            assert torch.equal(getattr(apart, key), getattr(everyone, key)[clients]), key


@pytest.mark.parametrize("pool", [nn.MaxPool2d(2), nn.MaxPool2d(3, 2)], ids=["apart", "overlapping"])
def test_of_equal_maxima_the_first_gets_the_gradient(pool):
    """Whole numbers in image and weights: equal windows abound, and no rounding hides them."""
    shape = (1, 9, 9)
    net = flat_after(nn.Sequential(nn.Conv2d(1, 3, 3), pool, nn.ReLU()), shape)
    nn.init.constant_(net[0][0].weight, 1.0)
    images = torch.from_numpy(np.random.default_rng(1).integers(0, 2, (6, *shape)))
    module, layout, batches = federation(net, shape, [6], batch_size=6, images=images, dtype=torch.float32)
    _, g = test_conv.asked(module, layout, batches, batches.clients[0])
    _, found = Native(module, layout, batches).gradient(start(module, layout), batches.clients[0])
    torch.testing.assert_close(found, g, rtol=0, atol=1e-6)


@pytest.mark.parametrize("build", [test_conv.uneven, test_conv.pooled_first], ids=lambda build: build.__name__)
def test_what_is_not_a_number_is_not_hidden_by_a_pooling_and_stays_in_its_sample(build):
    images = torch.randn(20, *SHAPE)
    images[3, 1, 4, 5] = float("nan")
    module, layout, batches = problem(build, [3, 17], batch_size=17, images=images)
    engine, w = Native(module, layout, batches), start(module, layout)
    for index, nan in zip([*batches.clients, batches.clients[0]], [False, True, False], strict=True):
        loss, g = engine.gradient(w.clone(), index)
        assert (bool(loss.isnan()), bool(g.isnan().any())) == (nan, nan)


def test_a_frozen_layer_or_pixels_without_flatten_are_refused_with_the_reason():
    module, _, batches = problem(test_conv.uneven, [5])
    module.net[0][0].requires_grad_(False)
    assert native.unfit(module, batches) == "a layer is frozen or used twice"
    net = nn.Sequential(nn.Conv2d(3, 5, (11, 1)), nn.Linear(9, CLASSES))
    assert "no nn.Flatten" in parts(TaskNet(net), SHAPE)
    with pytest.raises(UserError, match="engine=native cannot train this model: a layer is frozen"):
        choose.native(module, None, batches)


def test_trained_layers_only():
    """Poolings before the first convolution are not gone through backwards."""
    module, layout, batches = problem(test_conv.pooled_first, [6], batch_size=6)
    assert [stage.weight for stage in Native(module, layout, batches).stages] == [None, 0]
    assert len(trainable(module)) == 4


def test_a_model_is_not_asked_without_samples_that_are_there():
    module, layout, batches = problem(test_conv.uneven, [5])
    engine, w = Native(module, layout, batches), start(module, layout)
    with pytest.raises(UserError, match="w is "):
        engine.answers(w[1:], batches.x)
    with pytest.raises(UserError, match="x is "):
        engine.answers(w, batches.x[:, :2])

"""The gradients of a chain of convolutions are autograd's."""

import numpy as np
import pytest
import torch
from torch import nn

from bench import models
from bench.engine import compile as compiler
from bench.engine import structure
from bench.engine.conv import Convolutional
from bench.engine.convolutions import Im2col, TorchConvolution
from bench.engine.layers import Relu
from bench.engine.spectral import Spectral
from bench.learning.flat import trainable
from bench.learning.task_net import TaskNet
from bench.seeding import stream
from tests.bench.engine.chains import CLASSES, FORMS, federation, flat_after, force, start


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
    engine = Convolutional(module, layout, batches)
    for i, (loss, g) in zip(index, expected, strict=True):
        found_loss, found = engine.gradient(w, i)
        torch.testing.assert_close(found_loss, loss, rtol=0, atol=1e-10)
        torch.testing.assert_close(found, g, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("form", "kind"), zip(FORMS, [Im2col, Spectral, TorchConvolution], strict=True), ids=FORMS)
def test_a_form_that_is_asked_for_is_used(form, kind, monkeypatch):
    """So that the test above tests three."""
    force(monkeypatch, form)
    module, layout, batches = federation(flat_after(uneven(), (3, 11, 9)), (3, 11, 9), [6])
    steps = Convolutional(module, layout, batches).layers
    assert [type(s) for s in steps if isinstance(s, Im2col | Spectral | TorchConvolution)] == [kind, kind]


def test_a_batch_larger_than_usual_has_the_mean_gradient(monkeypatch):
    module, layout, batches = federation(flat_after(uneven(), (3, 11, 9)), (3, 11, 9), [17], batch_size=5)
    loss, g = asked(module, layout, batches, batches.clients[0])
    found_loss, found = Convolutional(module, layout, batches).gradient(start(module, layout), batches.clients[0])
    torch.testing.assert_close(found_loss, loss, rtol=0, atol=1e-10)
    torch.testing.assert_close(found, g, rtol=0, atol=1e-10)


@pytest.mark.parametrize("form", ["im2col", "torch"])
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
    _, found = Convolutional(module, layout, batches).gradient(start(module, layout), batches.clients[0])
    torch.testing.assert_close(found, g, rtol=0, atol=1e-12)


def test_a_chain_without_convolution_is_one_too():
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 7, bias=False), nn.ReLU(), nn.Linear(7, CLASSES))
    module, layout, batches = federation(net, (3, 2, 2), [6], batch_size=6)
    _, g = asked(module, layout, batches, batches.clients[0])
    _, found = Convolutional(module, layout, batches).gradient(start(module, layout), batches.clients[0])
    torch.testing.assert_close(found, g, rtol=0, atol=1e-12)


@pytest.mark.parametrize("frozen", [0, 3], ids=["first", "second"])
def test_a_frozen_layer_stays_and_the_others_learn(frozen):
    net = flat_after(uneven(), (3, 11, 9))
    net[0][frozen].requires_grad_(False)
    module, layout, batches = federation(net, (3, 11, 9), [5])
    _, g = asked(module, layout, batches, batches.clients[0])
    _, found = Convolutional(module, layout, batches).gradient(start(module, layout), batches.clients[0])
    torch.testing.assert_close(found, g, rtol=0, atol=1e-10)


def test_a_layer_that_is_used_twice_is_no_chain():
    """Its two gradients would have to be added."""
    layer = nn.Linear(4, 4)
    assert structure.chain(TaskNet(nn.Sequential(nn.Flatten(), layer, nn.ReLU(), layer))) == "it uses a layer twice"


def test_what_is_no_chain_is_refused():
    module, layout, batches = federation(nn.Sequential(nn.Flatten(), nn.Linear(4, CLASSES), nn.Tanh()), (1, 2, 2), [2])
    with pytest.raises(ValueError, match="Tanh"):
        Convolutional(module, layout, batches)


def test_relu_waits_for_the_pooling():
    order = compiler.pool_first([a := nn.Conv2d(1, 1, 1), b := nn.ReLU(), nn.ReLU(), c := nn.MaxPool2d(2)])
    assert order == [a, c, b]


@pytest.mark.parametrize(
    ("name", "shape", "batch", "forms"),
    [
        ("lenet5", (1, 28, 28), 64, [Im2col, Spectral]),
        ("lenet5_3x3", (3, 32, 32), 64, [Im2col, Im2col]),
        ("fed2a_cnn", (3, 32, 32), 48, [TorchConvolution, Spectral]),
        ("fed2a_cnn", (3, 32, 32), 1, [TorchConvolution, TorchConvolution]),
        ("cifar10_cnn", (3, 32, 32), 64, [TorchConvolution, TorchConvolution, TorchConvolution]),
    ],
)
def test_the_form_of_a_convolution_follows_from_its_sizes(name, shape, batch, forms):
    keys = {"dropout": 0.0, "channels": [64, 128], "hidden": [8, 8]}
    net = models.build({"name": name, "width": 1.0, **keys}, shape, CLASSES, stream(0, "init"))
    steps = Convolutional(*federation(net, shape, [batch], batch_size=batch, dtype=torch.float32)).layers
    assert [type(step) for step in steps if isinstance(step, Im2col | Spectral | TorchConvolution)] == forms


def test_relu_knows_its_zeros():
    relu = Relu(torch.zeros(1))
    relu.forward(torch.tensor([-1.0, 0.0, 2.0]))
    assert relu.backward(torch.ones(3), True).tolist() == [0, 0, 1]

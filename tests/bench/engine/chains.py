"""Small federations of chains, for the tests of their engines."""

import numpy as np
import torch
from torch import nn

from algorithms.base import Fed, Jobs
from bench.engine import compile as compiler
from bench.learning.batches import Batches
from bench.learning.flat import Layout, trainable
from bench.learning.task_net import TaskNet

CLASSES = 4


FORMS = {"im2col": (True, False), "spectral": (False, True), "torch": (False, False)}


def force(monkeypatch, form):
    im2col, fft = FORMS[form]
    monkeypatch.setattr(compiler, "prefers_im2col", lambda layer: im2col)
    monkeypatch.setattr(compiler, "fft_is_cheaper", lambda at, batch: fft and at.stride == (1, 1))


def flat_after(features, shape, *rest):
    units = features(torch.zeros(1, *shape)).numel()
    return nn.Sequential(features, nn.Flatten(), *rest, nn.Linear(units, CLASSES))


def federation(net, shape, sizes, batch_size=5, dtype=torch.float64, augment=None, seed=0, images=None):
    module = TaskNet(net).to(dtype)
    rng = np.random.default_rng(seed)
    total = sum(sizes)
    x = torch.from_numpy(rng.normal(size=(total, *shape))).to(dtype) if images is None else images.to(dtype)
    y = torch.from_numpy(rng.integers(0, CLASSES, total))
    clients = np.split(np.arange(total), np.cumsum(sizes)[:-1])
    batches = Batches(x, y, clients, lambda x: x, augment, batch_size=batch_size, classes=CLASSES, seed=0)
    return module, Layout(module), batches


def start(module, layout):
    return layout.rows(layout.flatten(trainable(module))[None])[0].clone()


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
        memory={},
    )
    return engine.train(algo, fed, jobs, [0] * len(clients))[0]

"""What a method may ask the run for: layer outputs, a trained head, the trace of a run of FedAvg."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

from algorithms.base import Algorithm, Fed, Schedule, Upload
from bench.engine.eager import Eager
from bench.learning.batches import Batches
from bench.learning.flat import Layout
from bench.learning.services import LayerOutputs
from bench.prepare import compose
from bench.prepare.assemble import build
from bench.seeding import stream
from bench.simulation.devices import Devices
from bench.simulation.loop import FederatedLoop
from bench.simulation.schedule import Rules


@pytest.fixture
def parts():
    small = ["dataset=digits", "clients=6", "cohort=3", "rounds=3", "batch_size=20", "test_samples=64"]
    return build(compose.config(small))


def forward(layout, w, x):
    first, bias, second, offset = layout.views(w)
    hidden = torch.relu(x @ first.T + bias)
    return hidden, (hidden @ second.T + offset)


def test_layer_outputs_are_those_after_the_activation_and_the_softmax(parts):
    fed, layout = parts.loop.fed, parts.loop.engine.layout
    batches = parts.loop.engine.batches
    models = torch.stack([parts.loop.server["w"], 2 * parts.loop.server["w"]])
    outputs = fed.layer_outputs(models, "train")
    of_class = [(batches.y == c).nonzero()[:, 0].numpy() for c in range(10)]
    drawn = np.concatenate([own[stream(0, "stimuli", c).permutation(len(own))[:5]] for c, own in enumerate(of_class)])
    assert len(set(drawn.tolist())) == 50 and drawn[:5].tolist() != of_class[0][:5].tolist()
    assert [tuple(o.shape) for o in outputs] == [(2, 50, 64), (2, 50, 10)]
    for k in range(2):
        hidden, logits = forward(layout, models[k], batches.load(torch.from_numpy(drawn))[0])
        torch.testing.assert_close(outputs[0][k], hidden)
        torch.testing.assert_close(outputs[1][k], logits.softmax(1))
    assert not torch.equal(fed.layer_outputs(models, "test")[0], outputs[0])
    assert torch.equal(fed.layer_outputs(models, "train")[0], outputs[0])


def test_another_seed_draws_other_stimuli(parts):
    fed, loaded = parts.loop.fed, parts.loop.fed.layer_outputs.loaded
    first, second = (
        LayerOutputs(parts.module, fed.layout, loaded, fed.layer_outputs.inputs, seed)._stimuli(loaded.train, "cpu")
        for seed in (0, 1)
    )
    assert first.shape == second.shape and not torch.equal(first, second)


def test_the_head_is_trained_on_features_and_nothing_else_moves(parts):
    fed, layout = parts.loop.fed, parts.loop.engine.layout
    w = parts.loop.server["w"]
    features, labels = torch.randn(30, 64), torch.arange(30) % 10
    fitted = fed.fit_head(w, features, labels, 3, 0.5)
    head = nn.Linear(64, 10)
    with torch.no_grad():
        for p, value in zip(head.parameters(), layout.views(w)[2:], strict=True):
            p.copy_(value)
    optimiser = torch.optim.SGD(head.parameters(), lr=0.5)
    for _ in range(3):
        optimiser.zero_grad()
        nn.functional.cross_entropy(head(features), labels).backward()
        optimiser.step()
    body = layout.part("body")
    assert torch.equal(fitted[body], w[body])
    torch.testing.assert_close(fitted[~body], layout.flatten(list(head.parameters())))


@dataclass(frozen=True, kw_only=True)
class Prototypes(Algorithm):
    @property
    def requires(self):
        return frozenset({"prototypes"})

    def extra_up(self, fed):
        return 2 * fed.layout.size

    def upload(self, jobs, trained, fed):
        extra = {"means": trained.prototypes, "counts": trained.counts, "end": trained.end}
        return Upload(trained.end - jobs.received, extra=extra)

    def aggregate(self, server, updates, fed):
        vars(self)["found"] = {**updates.extra, "client": updates.client}
        return server


def test_prototypes_are_the_class_means_of_what_enters_the_head(parts):
    old = parts.loop
    loop = FederatedLoop(Prototypes(), old.fed, old.engine, old.devices, old.rules, old.server["w"])
    loop.advance()
    batches, seen = old.engine.batches, loop.algo.method.found
    for k, client in enumerate(seen["client"].tolist()):
        x, y = batches.load(batches.clients[client])
        hidden, _ = forward(old.engine.layout, seen["end"][k], x)
        for c in range(10):
            assert seen["counts"][k, c] == (y == c).sum()
            expected = hidden[y == c].mean(0) if (y == c).any() else torch.zeros(64)
            torch.testing.assert_close(seen["means"][k, c], expected)


def test_parameters_that_share_a_gradient_are_trained_like_in_torch():
    """The loss sees a + b and the sum of c: autograd gives a and b one tensor, and c one number seen three times."""

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            for name in "abc":
                setattr(self, name, nn.Parameter(torch.arange(1.0, 4.0)))

        def training_step(self, batch, batch_idx):
            return (batch[0] * (self.a + self.b)).sum() ** 2 / 100 + self.c.sum()

    module, twin = Shared(), Shared()
    layout = Layout(module)
    batches = Batches(torch.ones(1, 3), torch.zeros(1), [[0]], lambda x: x, batch_size=1, classes=1, seed=0)
    w0 = layout.flatten(list(module.parameters()))
    constants = {"clients": 1, "cohort": 1, "rounds": 1, "epochs": 4, "lr": 0.1, "momentum": 0.9, "decay": 0.5}
    fed = Fed(**constants, samples=torch.ones(1), layout=layout)
    rules = Rules(Schedule(1, 1), rounds=1)
    loop = FederatedLoop(Algorithm(), fed, Eager(module, layout, batches), Devices(1, 0), rules, w0)
    loop.advance()
    optimiser = torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9, weight_decay=0.5)
    for _ in range(4):
        optimiser.zero_grad()
        twin.training_step((torch.ones(1, 3), None), 0).backward()
        optimiser.step()
    torch.testing.assert_close(loop.server["w"], layout.flatten(list(twin.parameters())))


def test_the_prerun_is_a_run_of_fedavg_with_the_same_seeds(parts):
    traces = [parts.loop.fed.trace(version) for version in range(3)]
    for trace in traces:
        torch.testing.assert_close(trace.w[0], parts.loop.server["w"])  # all start from the server's model
        parts.loop.advance()
        assert trace.w.shape == (3, 4810)
        assert trace.gradient.shape == (2, 4810)
        assert trace.reached.tolist() == [3, 3, 3]


def test_a_federation_without_data_says_so():
    fed = build(compose.config(["dataset=digits"])).loop.fed
    bare = replace(fed, trace=type(fed).trace)
    with pytest.raises(RuntimeError, match="no data"):
        bare.trace(0)

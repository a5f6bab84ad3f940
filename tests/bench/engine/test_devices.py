"""Nothing in the kernel, the engines, the loop or the algorithms puts a tensor on torch's default device.

There is no GPU here, so the default device is made `meta`, where tensors have no numbers: whatever is created without
a device lands there, and meets the run's tensors, which are on the CPU, in an error, or stays and is found.
"""

from functools import cache

import pytest
import torch

from algorithms.base import Algorithm, LocalRule
from bench.errors import UserError
from bench.prepare import compose
from bench.prepare.assemble import build
from bench.prepare.registry import classes
from bench.simulation.loop import FederatedLoop

ALGORITHMS = sorted(classes("algo"))
SMALL = ("dataset=digits", "clients=6", "cohort=3", "rounds=2", "epochs=2", "batch_size=40", "test_samples=64")


@cache
def config(*overrides):
    return compose.config([*SMALL, *overrides])


def run_elsewhere(parts):
    """All of a run after the data and the model, with `meta` as the default device; the tensors that came of it."""
    old = parts.loop
    with torch.device("meta"):
        loop = FederatedLoop(old.algo, old.fed, old.engine, old.devices, old.rules, old.server["w"])
        parts.evaluate.loop = loop
        while not loop.finished:
            loop.advance()
        state = loop.state_dict()
        deployed = loop.deployed()
        parts.evaluate(everyone=True)
    return [*tensors(state), deployed]


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from tensors(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from tensors(inner)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_stays_on_the_device_it_is_given(name):
    found = run_elsewhere(build(config(f"algo={name}", "engine=eager", "devices.rho=0.5", "momentum=0.5")))
    assert found
    assert {tensor.device.type for tensor in found} == {"cpu"}


@pytest.mark.parametrize("engine", ["eager", "chain", "vmap"])
@pytest.mark.parametrize("keys", [("algo=fedsam",), ("algo=mimelite",), ("algo=scaffold", "aggregation=arrived")])
def test_an_engine_stays_on_the_device_of_its_model(engine, keys):
    found = run_elsewhere(build(config(*keys, f"engine={engine}", "momentum=0.5", "weight_decay=0.01")))
    assert {tensor.device.type for tensor in found} == {"cpu"}


def test_a_convolutional_chain_stays_on_the_device_of_its_model():
    images = ("dataset=fmnist", "dataset.source=synthetic", "model=lenet5", "model.width=0.25", "local_unit=step")
    found = run_elsewhere(build(config(*images, "algo=fedprox", "engine=chain")))
    assert {tensor.device.type for tensor in found} == {"cpu"}


class Careless(Algorithm):
    def local(self, jobs, w, epoch, fed):
        return LocalRule(lr=torch.full((len(w),), 0.1))


class Scalar(Algorithm):
    def init_server(self, w, fed):
        return {"w": w, "step": w.new_zeros(())}

    def aggregate(self, server, updates, fed):
        return {**super().aggregate(server, updates, fed), "step": torch.zeros(())}


@pytest.mark.parametrize("careless", [Careless, Scalar])
def test_a_tensor_without_a_device_is_refused(careless):
    parts = build(config("algo=fedavg", "engine=eager"))
    parts.loop.algo = careless()
    with pytest.raises(UserError, match=r"on meta: it has to be .* on cpu"):
        run_elsewhere(parts)

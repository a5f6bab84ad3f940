"""The loss that a device has at the model it received, where a method asks for no gradient beside it."""

import os
from dataclasses import dataclass

import pytest
import torch

from algorithms.base import Algorithm
from bench import compiled
from bench.engine.conv import Convolutional
from bench.engine.eager import Eager
from bench.engine.native import Native
from tests.bench.engine.chains import federation, start, trained
from tests.bench.engine.test_conv_training import network

ENGINES = [Convolutional]
if not isinstance(compiled.library(), str) or "FEDBENCH_COMPILER" in os.environ:
    ENGINES.append(Native)


@dataclass(frozen=True, kw_only=True)
class Asks(Algorithm):
    more: tuple[str, ...] = ()

    @property
    def requires(self):
        return frozenset({"start_loss", *self.more})


@pytest.mark.parametrize("engine", ENGINES)
def test_it_is_the_same_with_and_without_a_gradient(engine, monkeypatch):
    shape, net = network("lenet5_3x3")
    parts = federation(net, shape, [300, 7], dtype=torch.float32)
    w, calls = start(*parts[:2]), []
    alone = engine(*parts)
    gradient = alone.gradient
    monkeypatch.setattr(alone, "gradient", lambda *given: calls.append(1) or gradient(*given))
    found = trained(alone, Asks(), w, [0, 1], [1, 1], spread=0.01).start_loss
    for other in (engine, Eager):
        both = trained(other(*parts), Asks(more=("full_gradient",)), w, [0, 1], [1, 1], spread=0.01)
        torch.testing.assert_close(found, both.start_loss, rtol=1e-6, atol=0)
    assert found[0] != found[1]
    assert bool(calls) == (engine is Convolutional)  # which has no answers without a gradient

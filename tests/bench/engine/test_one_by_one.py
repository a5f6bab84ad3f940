"""What engines that take one device after the other have in common."""

import pytest
import torch
from torch import nn

from algorithms.base import Algorithm
from bench.engine.eager import Eager
from tests.bench.engine.chains import federation, flat_after, start, trained


def test_an_error_in_training_names_the_client_and_its_rule():
    module, layout, batches = federation(flat_after(nn.Identity(), (2, 3)), (2, 3), [5, 5], dtype=torch.float64)
    engine = Eager(module, layout, batches)
    engine.training_step = lambda batch, step: 1 / 0
    with pytest.raises(ZeroDivisionError) as found:
        trained(engine, Algorithm(), start(module, layout), [1], [2])
    assert found.value.__notes__ == ["Client 1, dispatch 0, epoch 0: lr=0.05 scale=1 prox=0 sam=0"]

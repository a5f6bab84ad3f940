import numpy as np
import pytest
import torch

from datamodules.base import DataError
from datamodules.catalogue import data_sets
from datamodules.cifar import CIFAR10
from datamodules.digits import Digits
from datamodules.emnist import EMNIST
from datamodules.image100 import Image100
from datamodules.mnist import MNIST
from datamodules.synthetic import Pixels


@pytest.mark.parametrize("name", [name for name, cls in data_sets().items() if "synthetic" in cls.sources])
def test_a_data_set_that_offers_one_has_one_with_its_own_numbers(name):
    for cls in (type(v) for v in data_sets()[name].variants()):
        data = cls(source="synthetic").load()
        assert (len(data.train), len(data.test)) == cls.size and data.classes == cls.classes
        assert data.source == cls(source="synthetic").available() == "synthetic" and "synthetic" in data.deviation
        assert data.train.y.bincount().float().std() < 1
        stored = sum(s.x.nbytes + s.y.nbytes for s in (data.train, data.test))
        assert stored == 16 * sum(cls.size), "numbers, not pixels"
        x = data.inputs(data.train.x[:7], normalise=True)
        assert x.shape == (7, *data.shape) and x.shape[1:] == cls.shape and x.dtype == torch.float32


def test_splits_have_their_own():
    dataset = EMNIST(source="synthetic", split="byclass")
    assert (dataset.size, dataset.classes) == ((697_932, 116_323), 62)
    assert (EMNIST().size, EMNIST().classes) == ((124_800, 20_800), 26)
    data = dataset.load()
    assert (len(data.train), len(data.test), data.classes) == (697_932, 116_323, 62)


def test_the_number_of_synthetic_samples_can_be_chosen():
    data = CIFAR10(source="synthetic", samples=500).load()
    assert (len(data.train), len(data.test)) == (500, 100)
    assert not set(data.train.x.tolist()) & set(data.test.x.tolist())
    with pytest.raises(DataError, match=r"samples=5 is not one a class: use 10"):
        CIFAR10(source="synthetic", samples=5)
    with pytest.raises(DataError, match=r"dataset\.samples is for dataset\.source=synthetic"):
        CIFAR10(samples=500)


def test_pixels_depend_on_the_number_alone():
    data = MNIST(source="synthetic", samples=1000).load()
    whole = data.pixels(data.train.x)
    order = torch.from_numpy(np.random.default_rng(0).permutation(1000))
    assert torch.equal(data.pixels(data.train.x[order]), whole[order])
    assert len(whole.flatten(1).unique(dim=0)) == 1000
    x = data.inputs(data.train.x, normalise=True)
    assert abs(float(x.mean())) < 0.03 and abs(float(x.std()) - 1) < 0.03


def test_noise_is_the_stated_hash():
    """In Python's whole numbers, where nothing overflows."""

    def mix(h):
        for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
            h %= 2**32
            h = (h ^ (h >> shift)) * factor
        h %= 2**32
        return h ^ (h >> 15)

    pixels = Pixels(10, (3, 6, 7))  # 126 pixels: the last word is not used up
    for number in (0, 3, 814_254, 2**40 + 1):
        words = [mix(mix(number * 0x9E3779B1 + 0x7F4A7C15) + word * 0x85EBCA6B) for word in range(32)]
        expected = [byte % 128 for word in words for byte in word.to_bytes(4, "little")][:126]
        found = pixels(torch.tensor([number])).flatten() - pixels.patterns[number % 10]
        assert found.tolist() == expected


def test_noise_is_even_and_uncorrelated():
    pixels = Pixels(10, (1, 28, 28))
    numbers = torch.arange(0, 20_000, 10)
    noise = pixels(numbers).flatten(1).double() - pixels.patterns[0].double()
    assert noise.min() == 0 and noise.max() == 127
    assert torch.allclose(noise.mean(0), torch.tensor(63.5, dtype=torch.float64), atol=4)
    centred = (noise - 63.5) / 36.95
    assert float((centred[:, 1:] * centred[:, :-1]).mean(0).abs().max()) < 0.12
    assert float((centred[1:] * centred[:-1]).mean(1).abs().max()) < 0.2


@pytest.mark.parametrize("dataset", [MNIST, CIFAR10, Digits])
def test_a_linear_model_learns_it(dataset):
    data = dataset(source="synthetic", samples=4000).load()
    x, y = data.inputs(data.train.x, normalise=True).flatten(1), data.train.y
    model = torch.nn.Linear(x.shape[1], 10)
    torch.nn.init.zeros_(model.weight)
    optimiser = torch.optim.SGD(model.parameters(), lr=3 / x.shape[1])
    for k in range(300):
        rows = slice(k * 100 % 4000, k * 100 % 4000 + 100)
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimiser.step()
    test = data.inputs(data.test.x, normalise=True).flatten(1)
    accuracy = float((model(test).argmax(1) == data.test.y).float().mean())
    assert accuracy > 0.8, accuracy


def test_images_can_be_augmented_and_resized():
    data = Image100(source="synthetic", samples=100, augment=True, resize=32).load()
    x = data.augment(data.train.x[:5], np.random.default_rng(0))
    assert x.shape == (5, 3, 144, 144) and x.dtype == torch.uint8
    assert data.inputs(x, normalise=True).shape == (5, 3, 32, 32) == (5, *data.shape)
    held = data.with_validation(0.5, np.random.default_rng(0))
    assert held.inputs(held.test.x[:2], normalise=False).shape == (2, 3, 32, 32)

"""How far clients are from the whole: by hand, and against what chance gives."""

import numpy as np
import pytest
import torch

from bench.commands.skew import of_features, of_labels
from tests.datamodules.dealing import samples


def test_labels_by_hand():
    """A third of each label: a client with one, whichever it is, would have to change two thirds of its samples."""
    counts = np.array([[10, 10, 10], [9, 0, 0], [0, 4, 0], [1, 1, 0]])
    assert of_labels(counts, np.array([10, 10, 10])).found.tolist() == pytest.approx([0, 2 / 3, 2 / 3, 1 / 3])


def test_the_numbers_of_labels_do_not_count():
    rng = np.random.default_rng(0)
    counts, order = rng.integers(0, 9, (5, 7)) + 1, rng.permutation(7)
    one, two = of_labels(counts, counts.sum(0)), of_labels(counts[:, order], counts.sum(0)[order])
    assert one.found == pytest.approx(two.found) and one.chance == pytest.approx(two.chance)


def test_features_by_hand():
    """Two classes at 0 and 100, each with 1 above and 1 below: labels do not count, the half does."""
    x = np.array([10, 12, 10, 12, 110, 112, 110, 112], dtype=np.uint8)[:, None]
    given = samples([0] * 4 + [1] * 4, x=x)
    parts = [np.array(part) for part in ([0, 1], [0, 2], [1, 3, 5], [0, 4, 5], range(8))]
    distance = of_features(given, parts)
    assert distance.found.tolist() == pytest.approx([0, 1, 1, 1 / 3, 0])
    assert distance.chance[-1] == 0


def test_what_chance_gives_is_what_chance_gives():
    rng = np.random.default_rng(0)
    labels = rng.choice(6, 4000, p=[0.4, 0.2, 0.1, 0.1, 0.1, 0.1])
    given = samples(labels, x=torch.from_numpy(rng.normal(size=(4000, 30)) + 5 * labels[:, None]))
    parts = [rng.choice(4000, size, replace=False) for size in (50, 500, 2000) for _ in range(60)]
    counts = np.array([np.bincount(labels[part], minlength=6) for part in parts])
    for distance in (of_labels(counts, np.bincount(labels)), of_features(given, parts)):
        found, chance = (part.reshape(3, 60).mean(1) for part in (distance.found, distance.chance))
        assert found == pytest.approx(chance, rel=0.1)


def test_words_have_no_distance():
    assert of_features(samples([0, 1], x=torch.tensor([[3], [4]])), [np.array([0]), np.array([1])]) is None

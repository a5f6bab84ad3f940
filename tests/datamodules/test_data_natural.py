"""Clients by whose the samples are: groups stay whole."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from datamodules.base import DataError, Split
from datamodules.cifar import CIFAR100, SUPERCLASSES
from datamodules.natural import Natural
from tests.datamodules.dealing import samples, sizes, split
from tests.datamodules.test_data_partition import quick, seeds


@st.composite
def group_arrays(draw):
    """Some samples of each of some groups, in random order; their numbers need not be consecutive."""
    counts = draw(st.lists(st.integers(1, 30), min_size=1, max_size=40))
    numbers = np.arange(len(counts)) * draw(st.integers(1, 3)) + draw(st.integers(0, 5))
    return np.random.default_rng(draw(seeds)).permutation(np.repeat(numbers, counts))


@quick
@given(group_arrays(), st.integers(1, 40), st.integers(1, 15), seeds)
def test_groups_are_whole_and_evenly_dealt(groups, clients, least, seed):
    numbers, counts = np.unique(groups, return_counts=True)
    kept = set(numbers[counts >= least].tolist())
    assume(clients <= len(kept))
    partition, given_ = Natural(min_samples=least), samples(groups % 3, groups)
    parts = split(partition, given_, clients, seed)
    held = [set(groups[part].tolist()) for part in parts]
    assert set.union(*held) == kept and sum(map(len, held)) == len(kept), "no group at two clients"
    assert max(map(len, held)) - min(map(len, held)) <= 1
    left = int(counts[counts < least].sum())
    assert sizes(parts).sum() == len(groups) - left
    remark = partition.remark(given_, parts)
    assert remark == (
        f"partition.min_samples={least}: groups with {left} samples together are left out." if left else None
    )


def test_which_groups_meet_is_drawn():
    groups = np.repeat(np.arange(20), 3)
    one, two = (split(Natural(), samples(groups, groups), 10, seed) for seed in (0, 1))
    assert any((a != b).any() for a, b in zip(one, two, strict=True))
    assert len({tuple(np.unique(groups[part])) for part in (*one, *two)}) > 15


@pytest.mark.parametrize(
    ("partition", "clients", "says"),
    [
        (Natural(), 6, "clients=6 is more than the 5 groups of mine: use clients=5 or fewer."),
        (Natural(min_samples=8), 4, "more than the 3 groups of at least 8 samples of mine: use clients=3 or fewer."),
        (Natural(min_samples=11), 2, "leaves no group of mine, the largest of which has 10 samples: use 1 to 10."),
    ],
)
def test_what_cannot_be_dealt_says_what_can(partition, clients, says):
    groups = np.repeat(np.arange(5), [2, 4, 8, 9, 10])
    with pytest.raises(DataError, match=says):
        split(partition, samples(groups, groups), clients)


def test_data_without_groups_name_those_that_have_some():
    with pytest.raises(DataError) as error:
        split(Natural(), [0, 1, 2], 2)
    text = str(error.value)
    assert text.startswith("dataset=mine does not say whose its samples are") and text.endswith("with Split.groups.")
    assert all(f"dataset={name} by " in text for name in ("cifar100", "emnist", "gtsrb"))


def test_a_part_of_a_split_keeps_its_groups():
    made = samples([0, 1, 2, 3], [4, 4, 9, 9])
    assert made.train.take(made.train.y > 1).groups.tolist() == [9, 9]
    assert Split(made.train.x, made.train.y).take(made.train.y > 1).groups is None


def test_cifar100s_groups_are_its_superclasses():
    data = CIFAR100(source="synthetic", samples=200).load()
    assert torch.equal(data.train.groups, torch.tensor(SUPERCLASSES)[data.train.y])
    assert np.bincount(SUPERCLASSES).tolist() == [5] * 20
    trees, fish = (47, 52, 56, 59, 96), (1, 32, 67, 73, 91)  # maple, oak, palm, pine, willow; aquarium fish, ..., trout
    assert {SUPERCLASSES[c] for c in trees} == {17} and {SUPERCLASSES[c] for c in fish} == {1}

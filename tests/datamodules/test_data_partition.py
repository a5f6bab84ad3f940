"""What each partition promises, for any labels and any number of clients."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from datamodules.base import DataError
from datamodules.partition import Classes, Dirichlet, Iid

quick = settings(max_examples=60, deadline=None)
seeds = st.integers(0, 2**32)


@st.composite
def label_arrays(draw, least=1):
    """Some samples of each of some classes, in random order; class numbers need not be consecutive."""
    counts = draw(st.lists(st.integers(least, 60), min_size=1, max_size=12))
    gap = draw(st.integers(1, 3))
    return np.random.default_rng(draw(seeds)).permutation(np.repeat(np.arange(len(counts)) * gap, counts))


def split(partition, labels, clients, seed=0):
    parts = partition.split(labels, clients, np.random.default_rng(seed))
    assert len(parts) == clients and all(len(part) for part in parts)
    assert all(part.dtype == np.int64 and (np.diff(part) > 0).all() for part in parts)
    everything = np.concatenate(parts)
    assert len(np.unique(everything)) == len(everything), "a sample went to two clients"
    assert everything.min() >= 0 and everything.max() < len(labels)
    for part, again in zip(parts, partition.split(labels, clients, np.random.default_rng(seed)), strict=True):
        assert (part == again).all()
    return parts


def sizes(parts):
    return np.array([len(part) for part in parts])


@quick
@given(label_arrays(), st.integers(1, 40), seeds)
def test_iid(labels, clients, seed):
    assume(clients <= len(labels))
    found = sizes(split(Iid(), labels, clients, seed))
    assert found.sum() == len(labels) and np.ptp(found) <= 1


@quick
@given(label_arrays(), st.integers(1, 30), st.floats(1e-300, 1e300), st.integers(1, 12), seeds)
def test_dirichlet(labels, clients, alpha, min_size, seed):
    assume(clients * min_size <= len(labels))
    found = sizes(split(Dirichlet(alpha=alpha, min_size=min_size), labels, clients, seed))
    assert found.sum() == len(labels) and found.min() >= min_size


@quick
@given(label_arrays(least=30), st.integers(1, 25), st.integers(1, 12), seeds)
def test_classes(labels, clients, per_client, seed):
    assume(per_client <= len(np.unique(labels)))
    parts = split(Classes(per_client=per_client), labels, clients, seed)
    held = [np.unique(labels[part], return_counts=True) for part in parts]
    assert all(len(classes) == per_client for classes, _ in held)
    assert len({count for _, counts in held for count in counts.tolist()}) == 1, "the same number of each, everywhere"
    clients_per_class = [sum(c in classes for classes, _ in held) for c in np.unique(labels)]
    assert max(clients_per_class) - min(clients_per_class) <= 1


@quick
@given(label_arrays(least=50), st.integers(1, 10), st.integers(1, 4), st.floats(1, 4), seeds)
def test_classes_with_imbalance(labels, clients, per_client, xi, seed):
    assume(per_client <= len(np.unique(labels)))
    parts = split(Classes(per_client=per_client, imbalance=xi), labels, clients, seed)
    assert all(len(np.unique(labels[part])) == per_client for part in parts)
    found = np.sort(sizes(parts))
    small, large = found[: (clients + 1) // 2], found[(clients + 1) // 2 :]
    assert np.ptp(small) == 0
    assert all(abs(size - xi * small[0]) <= per_client for size in large)


def test_classes_uses_everything_when_numbers_divide():
    labels = np.repeat(np.arange(10), 600)
    for xi, expected in ((1, {120}), (3, {60, 180})):
        found = sizes(split(Classes(per_client=2, imbalance=xi), labels, 50))
        assert found.sum() == len(labels) and set(found.tolist()) == expected


def test_classes_are_not_always_the_same_pairs():
    labels = np.repeat(np.arange(10), 60)
    pairs = {tuple(np.unique(labels[part])) for part in split(Classes(per_client=2), labels, 50)}
    assert len(pairs) > 10


def test_dirichlet_alpha_is_skew():
    labels = np.repeat(np.arange(10), 1000)

    def largest_share(alpha):
        parts = split(Dirichlet(alpha=alpha), labels, 20)
        return np.mean([np.bincount(labels[part]).max() / len(part) for part in parts])

    assert largest_share(0.05) > largest_share(0.5) > largest_share(50)
    assert largest_share(1e9) == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("partition", [Iid(), Classes(), Dirichlet()], ids=lambda p: type(p).__name__)
def test_seeds_differ(partition):
    labels = np.repeat(np.arange(10), 60)
    one, two = split(partition, labels, 10, seed=0), split(partition, labels, 10, seed=1)
    assert any(len(a) != len(b) or (a != b).any() for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize(
    ("partition", "clients", "says"),
    [
        (Iid(), 0, "use 1 to 100 clients"),
        (Iid(), 101, "use 1 to 100 clients"),
        (Classes(per_client=11), 5, "with 10 classes: use 1 to 10"),
        (Classes(per_client=0), 5, "use 1 to 10"),
        (Classes(per_client=5), 30, "at most 20 clients"),
        (Classes(imbalance=0.5), 5, "at least 1, not 0.5"),
        (Classes(imbalance=9), 40, "fewer clients or a smaller partition.imbalance"),
        (Dirichlet(), 20, "at most 10 clients or partition.min_size=5"),
        (Dirichlet(alpha=0), 5, "positive"),
        (Dirichlet(alpha=float("nan")), 5, "positive"),
        (Dirichlet(min_size=0), 5, "at least 1"),
    ],
)
def test_infeasible_requests_say_what_would_work(partition, clients, says):
    labels = np.repeat(np.arange(10), 10)
    with pytest.raises(DataError, match=says.replace(".", r"\.")) as error:
        partition.split(labels, clients, np.random.default_rng(0))
    assert str(error.value).endswith(".") and "\n" not in str(error.value)


def test_the_advice_works():
    split(Classes(per_client=5), np.repeat(np.arange(10), 10), 20)
    split(Dirichlet(min_size=5), np.repeat(np.arange(10), 10), 20)

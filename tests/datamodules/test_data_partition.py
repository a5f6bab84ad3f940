"""What each partition promises, for any labels and any number of clients."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bench.prepare import registry
from datamodules.base import DataError
from datamodules.clusters import Clusters
from datamodules.partition import Classes, Dirichlet, Iid, Shards
from datamodules.ranges import Ranges
from tests.datamodules.dealing import samples, sizes, split

SMALL = Ranges(n_min=20, n_max=40, c_min=2, c_max=4)
# The same examples everywhere: CI fails only for a change.
quick = settings(max_examples=60, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32)


@st.composite
def label_arrays(draw, least=1):
    """Some samples of each of some classes, in random order; class numbers need not be consecutive."""
    counts = draw(st.lists(st.integers(least, 60), min_size=1, max_size=12))
    gap = draw(st.integers(1, 3))
    return np.random.default_rng(draw(seeds)).permutation(np.repeat(np.arange(len(counts)) * gap, counts))


@pytest.mark.parametrize("name", registry.classes("partition"))
def test_a_partition_found_in_the_packages_deals_what_is_there(name):
    """Also one that is not named below."""
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(20), 500))
    parts = split(registry.classes("partition")[name](), samples(labels, groups=np.arange(10_000) // 100), 6)
    assert any((a[: len(b)] != b[: len(a)]).any() for a, b in combinations(parts, 2))


@quick
@given(label_arrays(), st.integers(1, 40), seeds)
def test_iid_clients_differ_by_one_sample_at_most(labels, clients, seed):
    assume(clients <= len(labels))
    found = sizes(split(Iid(), labels, clients, seed))
    assert found.sum() == len(labels) and np.ptp(found) <= 1


@quick
@given(label_arrays(), st.integers(1, 30), st.floats(1e-300, 1e300), st.integers(1, 12), seeds)
def test_dirichlet_uses_every_sample_and_keeps_to_the_least_size(labels, clients, alpha, min_size, seed):
    assume(clients * min_size <= len(labels))
    found = sizes(split(Dirichlet(alpha=alpha, min_size=min_size), labels, clients, seed))
    assert found.sum() == len(labels) and found.min() >= min_size


@quick
@given(label_arrays(least=30), st.integers(1, 25), st.integers(1, 12), seeds)
def test_clients_hold_as_many_classes_as_asked_in_equal_parts(labels, clients, per_client, seed):
    assume(per_client <= len(np.unique(labels)))
    parts = split(Classes(per_client=per_client), labels, clients, seed)
    held = [np.unique(labels[part], return_counts=True) for part in parts]
    assert all(len(classes) == per_client for classes, _ in held)
    assert len({count for _, counts in held for count in counts.tolist()}) == 1, "the same number of each, everywhere"
    clients_per_class = [sum(c in classes for classes, _ in held) for c in np.unique(labels)]
    assert max(clients_per_class) - min(clients_per_class) <= 1


@quick
@given(label_arrays(least=50), st.integers(1, 10), st.integers(1, 4), st.floats(1, 4), seeds)
def test_imbalance_is_the_ratio_of_large_to_small_clients(labels, clients, per_client, xi, seed):
    assume(per_client <= len(np.unique(labels)))
    parts = split(Classes(per_client=per_client, imbalance=xi), labels, clients, seed)
    assert all(len(np.unique(labels[part])) == per_client for part in parts)
    found = np.sort(sizes(parts))
    small, large = found[: (clients + 1) // 2], found[(clients + 1) // 2 :]
    assert np.ptp(small) == 0
    assert all(abs(size - xi * small[0]) <= per_client for size in large)


@quick
@given(label_arrays(), st.integers(1, 30), st.integers(1, 4), seeds)
def test_shards_use_every_sample_and_differ_by_one(labels, clients, per_client, seed):
    assume(clients * per_client <= len(labels))
    parts = split(Shards(per_client=per_client), labels, clients, seed)
    assert len(np.concatenate(parts)) == len(labels) and np.ptp(sizes(parts)) <= per_client
    # sorted by label, a shard is a run of neighbours: it spans as many classes as lie inside its length
    smallest = np.unique(labels, return_counts=True)[1].min()
    length = -(-len(labels) // (clients * per_client))
    for part in parts:
        assert len(np.unique(labels[part])) <= per_client * (2 + (length - 2) // smallest if length > 1 else 1)


def test_shards_are_mcmahans():
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 6000))
    parts = split(Shards(), labels, 100)
    assert set(sizes(parts).tolist()) == {600}
    held = [np.bincount(labels[part], minlength=10) for part in parts]
    assert all(set(counts.tolist()) <= {0, 300, 600} for counts in held), "two shards of 300, each of one label"
    assert 5 < sum(600 in counts for counts in held) < 20, "one in eleven or so gets the same label twice"


@quick
@given(label_arrays(least=20), st.integers(1, 25), st.booleans(), st.data())
def test_ranges_keep_sizes_and_classes_within_their_bounds(labels, clients, overlap, data):
    assume(clients <= len(labels))
    classes, counts = np.unique(labels, return_counts=True)
    c_min = data.draw(st.integers(1, len(classes)))
    c_max = data.draw(st.integers(c_min, min(len(classes), 20)))
    n_max = data.draw(st.integers(c_max, max(c_max, int(np.sort(counts)[-c_min:].sum()))))
    assume(n_max <= np.sort(counts)[-c_min:].sum())
    n_min = data.draw(st.integers(c_max, n_max))
    partition = Ranges(n_min=n_min, n_max=n_max, c_min=c_min, c_max=c_max, overlap=overlap)
    try:
        parts = split(partition, labels, clients, data.draw(seeds))
    except DataError as error:
        assert not overlap and clients > 20 and "partition.overlap=true" in str(error)
        return
    assert all(c_min <= len(np.unique(labels[part])) <= c_max for part in parts)
    assert sizes(parts).max() <= n_max
    if overlap or partition.remark(samples(labels), parts) is None:
        assert sizes(parts).min() >= n_min
    else:
        found = f"scaled down to {sizes(parts).min()}-{sizes(parts).max()} samples"
        assert found in partition.remark(samples(labels), parts)


def test_ranges_as_in_fed2a():
    """GTSRB's setting: sizes, classes and shares look as they were drawn, and clients share samples."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(43), rng.integers(180, 2010, 43))
    parts = split(Ranges(), labels, 300)
    held = np.array([np.bincount(labels[part], minlength=43) for part in parts])
    assert 900 <= sizes(parts).min() < 910 and 1490 < sizes(parts).max() <= 1500
    assert abs(sizes(parts).mean() - 1200) < 30
    assert np.bincount((held > 0).sum(axis=1), minlength=13)[4:].min() > 15
    assert len(np.unique(np.concatenate(parts))) < sizes(parts).sum()
    shares = np.concatenate([h[h > 0] / h.max() for h in held if (h > 0).sum() > 8])
    assert shares.min() < 0.05 and 0.4 < shares.mean() < 0.7, "proportional to U(0, 1)"


def test_ranges_without_overlap_use_nearly_all_of_what_is_scarce():
    given_ = samples(np.repeat(np.arange(10), 5000))
    partition = Ranges(n_min=1600, n_max=2400, c_min=2, c_max=6, overlap=False)  # Fed2A on CIFAR-10: 60,000 > 50,000
    parts = split(partition, given_, 30)
    assert 40_000 < sizes(parts).sum() <= 50_000 and "1600-2400 were asked for" in partition.remark(given_, parts)
    assert Ranges(n_min=1600, n_max=2400, c_min=2, c_max=6).remark(given_, parts) is None
    few = Ranges(n_min=1600, n_max=2400, c_min=2, c_max=6, overlap=False)
    assert few.remark(given_, split(few, given_, 5)) is None


@quick
@given(label_arrays(least=30), st.integers(1, 25), st.integers(1, 6), st.floats(0, 1), seeds)
def test_clusters_use_every_sample(labels, clients, clusters, p, seed):
    classes = np.unique(labels)
    assume(clusters <= min(clients, len(classes)))
    try:
        parts = split(Clusters(p=p, clusters=clusters), labels, clients, seed)
    except DataError as error:
        assert "cannot make up" in str(error) or "use fewer clients" in str(error)
        return
    assert len(np.concatenate(parts)) == len(labels)
    pools = [np.concatenate([parts[i] for i in mine]) for mine in np.array_split(np.arange(clients), clusters)]
    for mine in np.array_split(np.arange(clients), clusters):
        assert np.ptp(sizes([parts[i] for i in mine])) <= 1, "evenly over the cluster's clients"
    if p >= 0.6 and clusters > 1:  # a class is then mainly with its own cluster
        held = np.array([[(labels[pool] == c).sum() for c in classes] for pool in pools])
        main = held.argmax(axis=0)
        assert set(np.bincount(main, minlength=clusters).tolist()) <= {
            len(classes) // clusters,
            -(-len(classes) // clusters),
        }
        for cluster, pool in enumerate(pools):
            assert abs(held[cluster, main == cluster].sum() - p * len(pool)) <= len(classes) + 0.02 * len(pool)


@pytest.mark.parametrize(("degree", "p"), [(1, 1.0), (2, 0.8), (3, 0.4), (4, 0.2)])
def test_clusters_as_in_fedlc(degree, p):
    labels = np.repeat(np.arange(10), 5000)
    parts = split(Clusters(degree=degree), labels, 20)
    assert set(sizes(parts).tolist()) == {2500}
    held = np.array([np.bincount(labels[part], minlength=10) for part in parts])
    of_cluster = held.reshape(5, 4, 10).sum(axis=1)
    assert np.allclose(np.sort(of_cluster, axis=1)[:, -2:].sum(axis=1), p * 10_000, atol=10)
    assert np.allclose(np.sort(of_cluster, axis=1)[:, :-2], (1 - p) * 10_000 / 8, atol=10)


def test_clusters_of_62_classes_of_unequal_size():
    counts = np.random.default_rng(1).integers(50, 900, 62)
    labels = np.repeat(np.arange(62), counts)
    parts = split(Clusters(degree=1), labels, 20)
    held = np.array([np.bincount(labels[part], minlength=62) for part in parts]).reshape(5, 4, 62).sum(axis=1)
    assert (held > 0).sum(axis=1).tolist() == [13, 13, 12, 12, 12]
    assert ((held > 0).sum(axis=0) == 1).all(), "disjoint main classes"
    mixed = split(Clusters(degree=2), labels, 20)
    held = np.array([np.bincount(labels[part], minlength=62) for part in mixed]).reshape(5, 4, 62).sum(axis=1)
    main = held.argmax(axis=0)
    for cluster in range(5):
        assert held[cluster, main == cluster].sum() / held[cluster].sum() == pytest.approx(0.8, abs=0.005)


def test_p_overrides_the_degree():
    labels = np.repeat(np.arange(10), 100)
    for one, two in zip(split(Clusters(degree=3), labels, 5), split(Clusters(p=0.4), labels, 5), strict=True):
        assert (one == two).all()


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


@pytest.mark.parametrize(
    "partition", [Iid(), Shards(), Classes(), Dirichlet(), Clusters(), SMALL], ids=lambda p: type(p).__name__
)
def test_another_seed_deals_otherwise(partition):
    labels = np.repeat(np.arange(10), 60)
    one, two = split(partition, labels, 10, seed=0), split(partition, labels, 10, seed=1)
    assert any(len(a) != len(b) or (a != b).any() for a, b in zip(one, two, strict=True))

"""Partitions that cannot be dealt: one sentence that says what would work."""

import re

import numpy as np
import pytest

from datamodules.base import DataError
from datamodules.clusters import Clusters
from datamodules.partition import Classes, Dirichlet, Iid, Shards
from datamodules.ranges import Ranges
from tests.datamodules.dealing import samples, split


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
        (Shards(), 51, "use 1 to 1."),
        (Shards(per_client=0), 5, "use 1 to 20."),
        (Ranges(n_min=10, n_max=21, c_min=2, c_max=4), 5, "hold 20: use n_max=20 or a larger c_min"),
        (Ranges(n_min=3, n_max=9, c_min=2, c_max=4), 5, "use 4 (c_max, one sample of each class) <= n_min"),
        (Ranges(n_min=30, n_max=20, c_min=2, c_max=4), 5, "<= n_min <= n_max"),
        (Ranges(n_min=10, n_max=20, c_min=4, c_max=11), 5, "c_max <= 10"),
        (Ranges(n_min=10, n_max=20, c_min=5, c_max=4), 5, "1 <= c_min <= c_max"),
        (Ranges(n_min=20, n_max=20, c_min=10, c_max=10, overlap=False), 40, "partition.overlap=true"),
        (Clusters(), 4, "use 1 to 4."),
        (Clusters(clusters=11), 20, "use 1 to 10."),
        (Clusters(clusters=0), 20, "use 1 to 10."),
        (Clusters(degree=5), 20, "use 1 to 4, or partition.p"),
        (Clusters(p=1.5), 20, "use 0 to 1"),
        (Clusters(p=float("nan")), 20, "use 0 to 1"),
    ],
)
def test_infeasible_requests_say_what_would_work(partition, clients, says):
    labels = np.repeat(np.arange(10), 10)
    with pytest.raises(DataError, match=re.escape(says)) as error:
        partition.split(samples(labels), clients, np.random.default_rng(0))
    assert str(error.value).endswith(".") and "\n" not in str(error.value)


def test_one_cluster_with_most_of_the_data_says_so():
    labels = np.repeat([0, 1, 2, 3, 4], [900, 10, 10, 10, 10])
    with pytest.raises(DataError, match=r"hold 900 of 940 samples, .* use partition\.p=1"):
        Clusters(degree=2).split(samples(labels), 5, np.random.default_rng(0))
    split(Clusters(degree=1), labels, 5)
    with pytest.raises(DataError, match="10 samples for 20 clients: use fewer clients"):
        Clusters(degree=1).split(samples(labels), 100, np.random.default_rng(0))


def test_the_advice_works():
    split(Ranges(n_min=10, n_max=20, c_min=2, c_max=4), np.repeat(np.arange(10), 10), 5)
    split(Classes(per_client=5), np.repeat(np.arange(10), 10), 20)
    split(Dirichlet(min_size=5), np.repeat(np.arange(10), 10), 20)

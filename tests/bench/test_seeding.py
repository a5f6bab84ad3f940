"""Random streams by name, and the shuffle that is our own."""

import hashlib
import zlib

import numpy as np
import pytest

from bench import seeding
from bench.compiled import library
from bench.seeding import shuffles, stream, streams


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, 2**40 + 3])
@pytest.mark.parametrize("ids", [[(5, 7), (0, 0), (2**31, 9)], [(1,), (2,)], [(1, 2, 3, 4), (4, 3, 2, 1)]])
def test_streams_drawn_together_are_those_drawn_alone(seed, ids):
    together = [rng.integers(2**63, size=4).tolist() for rng in streams(seed, "batches", ids)]
    assert together == [stream(seed, "batches", *one).integers(2**63, size=4).tolist() for one in ids]
    words = [[seed, zlib.crc32(b"batches"), *one] for one in ids]
    assert together == [np.random.default_rng(one).integers(2**63, size=4).tolist() for one in words]


LENGTHS = [1, 2, 3, 10, 57, 600, 100_000, 4, 4, 4]
TIMES = [3, 1, 5, 4, 2, 3, 1, 0, 2, 7]


def shuffled(seed):
    ids = [(k, 5 * k) for k in range(len(LENGTHS))]
    found = shuffles(seed, "batches", ids, [7 + 3 * np.arange(length) for length in LENGTHS], TIMES)
    assert [len(orders) for orders in found] == TIMES and all(o.dtype == np.int64 for one in found for o in one)
    return [[order.tolist() for order in orders] for orders in found]


@pytest.mark.skipif(isinstance(library(), str), reason="the C part was not built")
@pytest.mark.parametrize("seed", [0, 2**40 + 3])
def test_the_shuffle_in_c_is_the_one_in_python(seed, monkeypatch):
    in_c = shuffled(seed)
    monkeypatch.setattr(seeding, "library", lambda: "not built")
    assert shuffled(seed) == in_c


def test_the_shuffle_stays_what_records_were_made_with():
    """numpy's was the same when it was taken over (2.4), but promises nothing."""
    found = shuffled(0)
    assert (
        hashlib.sha256(str(found).encode()).hexdigest()
        == "4ee0fbba3e7800c3d812564c9c43698f0dc2da292e333825629dbbd88541fbc7"
    )
    for (k, orders), length in zip(enumerate(found), LENGTHS, strict=True):
        rng = stream(0, "batches", k, 5 * k)
        for order in orders:
            assert sorted(order) == (7 + 3 * np.arange(length)).tolist()
            if np.__version__.startswith("2.4"):
                copy = 7 + 3 * np.arange(length)
                rng.shuffle(copy)
                assert order == copy.tolist()

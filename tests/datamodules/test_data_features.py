"""Feature skew: clients whose labels are those of all, and whose samples look otherwise."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from datamodules import features as module
from datamodules import samples as samples_module
from datamodules.base import DataError
from datamodules.digits import Digits
from datamodules.features import LARGE, LEVELS, SOME, TURNS, Features, along
from datamodules.samples import Samples
from tests.datamodules.dealing import samples, sizes, split
from tests.datamodules.test_data_partition import label_arrays, quick, seeds


def one_column(labels, seed=0):
    """Of distinct numbers."""
    return samples(labels, x=np.random.default_rng(seed).permutation(len(labels))[:, None].astype(np.float32))


@pytest.fixture(scope="module")
def digits():
    return Samples.of(Digits().load(), "digits")


def scores(given_, seed=0):
    return along(given_, np.random.default_rng(seed))


@quick
@given(label_arrays(), st.integers(1, 40), st.floats(0, 1), seeds)
def test_every_client_has_every_class_in_its_share(labels, clients, skew, seed):
    assume(clients <= len(labels))
    parts = split(Features(skew=skew), one_column(labels, seed), clients, seed)
    assert sizes(parts).sum() == len(labels) and np.ptp(sizes(parts)) <= 1
    classes, counts = np.unique(labels, return_counts=True)
    held = np.array([[(labels[part] == c).sum() for c in classes] for part in parts])
    # the share below a place is off by half a sample in each of two runs of each class, and a cut by one sample
    off = 1 + (1 + counts / len(labels) * (len(classes) + 1))
    assert (np.abs(held - counts / clients) <= 2 * off).all()


@quick
@given(label_arrays(), st.integers(1, 12), seeds)
def test_a_client_has_a_slice_of_each_class(labels, clients, seed):
    assume(clients <= len(labels))
    given_ = one_column(labels, seed)
    value = given_.features().ravel()
    parts = split(Features(), given_, clients, seed)
    for c in np.unique(labels):
        held = sorted(sorted(value[part[labels[part] == c]].tolist()) for part in parts)
        in_turn = [number for mine in held for number in mine]
        assert in_turn == sorted(in_turn), "what lies between two of a client's samples is its own"


def test_skew_is_the_share_that_is_sorted():
    """Of a class's even numbers a client's mean is its own share of the slice's, and the rest's is the whole's."""
    labels = np.zeros(20_000, dtype=np.int64)
    given_ = one_column(labels)
    value = given_.features().ravel() / 20_000
    for skew in (0, 0.25, 0.5, 1):
        means = sorted(value[part].mean() for part in split(Features(skew=skew), given_, 4))
        assert means == pytest.approx([0.5 + skew * (k / 4 + 1 / 8 - 0.5) for k in range(4)], abs=0.015)


def test_the_direction_is_the_first_principal_component_within_classes(digits):
    x, y = digits.features().astype(float), digits.labels
    means = np.stack([x[y == c].mean(0) for c in range(10)])
    values, vectors = np.linalg.eigh((x - means[y]).T @ (x - means[y]))
    assert values[-2] < 0.8 * values[-1], "there is one to be found"
    for seed in range(3):
        assert abs(np.corrcoef(scores(digits, seed), x @ vectors[:, -1])[0, 1]) > 0.99999


def test_the_means_of_classes_do_not_count():
    rng = np.random.default_rng(0)
    labels, look = rng.integers(0, 5, 2000), rng.integers(0, 20, 2000)
    x = np.stack([50 * labels + rng.integers(0, 2, 2000), look], axis=1).astype(np.uint8)
    assert abs(np.corrcoef(scores(samples(labels, x=x)), look)[0, 1]) > 0.99


def test_scores_are_those_of_whole_numbers_without_end(digits):
    """The same power iteration in Python's integers: no sum was ever rounded."""
    few = Samples(digits.train.take(torch.arange(60)), "few")
    rows, labels = few.features().astype(int).tolist(), few.labels.tolist()
    rng = np.random.default_rng(0)
    assert rng.choice(60, 60, replace=False).sum() == 60 * 59 // 2
    direction = rng.integers(-LARGE, LARGE, 64).tolist()

    def rounded(numbers):
        largest = max(map(abs, numbers))
        return [round(number / largest * LARGE) for number in numbers]

    def times(direction):
        return [sum(a * b for a, b in zip(row, direction, strict=True)) for row in rows]

    for _ in range(TURNS):
        score = rounded(times(direction))
        mine = {c: [s for s, label in zip(score, labels, strict=True) if label == c] for c in set(labels)}
        score = [s - round(sum(mine[c]) / len(mine[c])) for s, c in zip(score, labels, strict=True)]
        direction = rounded([sum(s * row[j] for s, row in zip(score, rows, strict=True)) for j in range(64)])
    assert scores(few).tolist() == times(direction)
    assert SOME * LEVELS * 2 * LARGE < 2**53 and 500_000 * LEVELS * LARGE < 2**53, "nor in the largest sums"


def test_threads_blocks_and_pieces_make_no_difference(digits, monkeypatch):
    expected = scores(digits)
    for threads, block, piece in ((1, 100, 2**22), (2, 100, 2**22), (2, 7, 1000), (1, 5000, 64)):
        monkeypatch.setattr(module, "BLOCK", block)
        monkeypatch.setattr(samples_module, "PIECE", piece)
        with threadpool_limits(threads):
            assert (scores(digits) == expected).all()


def test_the_scale_of_a_column_does_not_count():
    rng = np.random.default_rng(0)
    labels, x = rng.integers(0, 2, 300), rng.normal(size=(300, 4)) * [1, 2, 3, 1]
    expected = scores(samples(labels, x=x))
    assert (scores(samples(labels, x=x * [2.0**40, 1, 0.5, 2.0**-30])) == expected).all()
    assert (
        np.abs(np.corrcoef(scores(samples(labels, x=x)), scores(samples(labels, x=x.astype(np.float16))))).min() > 0.99
    )


def test_the_direction_is_found_from_some_of_many(digits, monkeypatch):
    monkeypatch.setattr(module, "SOME", 700)
    assert abs(np.corrcoef(scores(digits), scores(digits, 1))[0, 1]) > 0.95


def test_samples_that_are_all_alike_are_dealt_at_random():
    labels = np.repeat([0, 1], 50)
    one, two = (split(Features(), samples(labels, x=torch.full((100, 3), 7.0)), 5, seed) for seed in (0, 1))
    assert any((a != b).any() for a, b in zip(one, two, strict=True))


def test_one_number_a_sample_is_a_row():
    assert samples([0, 1, 0], x=torch.tensor([3.0, 4.0, 5.0])).features(np.array([2, 0])).tolist() == [[5.0], [3.0]]


def test_numbers_that_measure_nothing_are_refused():
    with pytest.raises(DataError, match="The features of mine are int64, neither pixels nor measured numbers"):
        split(Features(), samples([0, 1], x=torch.tensor([[3], [4]])), 2)

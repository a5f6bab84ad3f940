import numpy as np
import pytest
import torch

from bench.learning.batches import Batches
from bench.seeding import stream

CLIENTS = [np.arange(0, 23), np.arange(23, 24), np.arange(24, 44)]


def batches(**keys) -> Batches:
    x = torch.arange(44)
    return Batches(x, x, CLIENTS, lambda x: x * 2, **{"batch_size": 10, "classes": 44, "seed": 0, **keys})


@pytest.mark.parametrize("client", [0, 1, 2])
def test_every_epoch_is_a_new_pass_over_all_samples(client):
    epochs = batches().epochs(client, 0, 3)
    for epoch in epochs:
        assert sorted(torch.cat(list(epoch)).tolist()) == CLIENTS[client].tolist()
        assert len(epoch) == batches().steps_per_epoch(client)
    if len(CLIENTS[client]) > 1:
        assert torch.cat(list(epochs[0])).tolist() != torch.cat(list(epochs[1])).tolist()


def test_counting_steps_an_epoch_is_the_next_batch_of_the_pass():
    by_step = batches(local_unit="step").epochs(0, 4, 5)
    assert [len(epoch) for epoch in by_step] == [1] * 5
    passes = [batch for epoch in batches().epochs(0, 4, 2) for batch in epoch]
    assert [epoch[0].tolist() for epoch in by_step] == [batch.tolist() for batch in passes[:5]]
    assert batches(local_unit="step").steps_per_epoch(0) == 1


def test_batches_depend_on_seed_client_and_dispatch_alone():
    one = torch.cat(list(batches().epochs(0, 1, 1)[0])).tolist()
    assert one == torch.cat(list(batches(batch_size=7).epochs(0, 1, 1)[0])).tolist()
    assert one != torch.cat(list(batches().epochs(0, 2, 1)[0])).tolist()
    assert one != torch.cat(list(batches(seed=1).epochs(0, 1, 1)[0])).tolist()


def test_loading_transforms_inputs_and_leaves_labels():
    x, y = batches().load(torch.tensor([3, 5]))
    assert x.tolist() == [6, 10]
    assert y.tolist() == [3, 5]


def test_streams_are_independent_of_each_other_and_repeatable():
    draws = {key: stream(*key).random() for key in [(0, "a"), (0, "b"), (1, "a"), (0, "a", 1), (0, "a", 1, 2)]}
    assert len(set(draws.values())) == len(draws)
    assert all(stream(*key).random() == value for key, value in draws.items())

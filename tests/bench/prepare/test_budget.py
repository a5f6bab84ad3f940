"""The estimate that is made before a run, against numbers worked out by hand."""

import pytest
import torch

from bench.prepare import budget, compose
from bench.prepare.registry import create

P = 4 * (64 * 64 + 64 + 64 * 10 + 10)  # bytes of the perceptron for digits


def estimate(*keys):
    config = compose.config([*keys, "batch_size=10"])
    loaded = create(config["dataset"]).load()
    samples = [72] * config["clients"]
    return budget.estimate(config, loaded, samples, torch.device("cpu"))


def test_the_memory_of_fedavg_is_what_its_shapes_add_up_to():
    memory, disk = estimate("algo=fedavg", "cohort=10")
    assert memory["the model"] == 6 * P  # with gradients and the next server state
    assert memory["the data"] == 1797 * (64 + 8)
    assert memory["training 10 at a time"] == 10 * 2 * P + 8 * 64 * 10
    assert memory["the order of samples in 2 epochs"] == 10 * 2 * (8 * 72 + 500 * 8)
    assert memory["10 trained models"] == 10 * 3 * P  # each update, its copy in the stack, and the model
    assert memory["the memory of 20 devices"] == 0
    assert disk["checkpoints"] == 2 * 2 * P  # the server's model, and the version in flight, which is the same


def test_memory_of_devices_counts_those_that_can_have_some():
    memory, disk = estimate("algo=scaffold", "cohort=3", "rounds=2")
    assert memory["the memory of 6 devices"] == 6 * P
    assert disk["checkpoints"] == 2 * (2 * P + 6 * P + 2 * P)  # w and c; c_i; w and c in flight
    assert estimate("algo=scaffold", "cohort=3", "rounds=99")[0]["the memory of 20 devices"] == 20 * P


def test_what_devices_remember_of_their_uploads_counts_for_each_vector_that_they_send():
    assert estimate("algo=fedavg", "upload=topk+quantise")[0]["the memory of 20 devices"] == 20 * P
    assert estimate("algo=scaffold", "upload=topk")[0]["the memory of 20 devices"] == 20 * 3 * P
    assert estimate("algo=fedavg", "upload=quantise")[0]["the memory of 20 devices"] == 0


def test_workers_hold_what_they_do_not_share_and_the_jobs_on_their_way():
    memory, _ = estimate("algo=fedavg", "cohort=10", "engine.workers=4")
    assert memory["4 workers"] == 3 * 0.05e9 + 10 * 2 * P
    assert estimate("algo=fedavg", "cohort=10")[0]["1 workers"] == 0


def test_asynchronous_devices_keep_the_versions_they_downloaded():
    memory, _ = estimate("algo=fedasync", "engine.batch=2")
    assert memory["20 versions in flight"] == 20 * P and memory["4 trained models"] == 4 * P
    assert estimate("algo=fedavg")[0]["1 versions in flight"] == P


def test_cached_aggregation_keeps_every_model():
    memory, disk = estimate("algo=fedavg", "aggregation=cached")
    assert memory["every device's last model"] == 3 * 20 * P
    assert disk["checkpoints"] == 2 * (2 + 20) * P


def test_the_network_is_outlined_without_its_numbers():
    config = compose.config(["model.hidden=[1000000000]"])
    net = budget.outline(config, create(config["dataset"]).load())
    assert sum(p.numel() for p in net.parameters()) == 10**9 * (64 + 1 + 10) + 10
    assert all(p.is_meta for p in net.parameters())


@pytest.mark.parametrize(
    ("size", "text"), [(123, "0.1 kB"), (2.5e6, "2.5 MB"), (6e7, "0.1 GB"), (1.2e15, "1,200,000.0 GB")]
)
def test_sizes_read_well(size, text):
    assert budget.size_text(size) == text


def test_a_method_that_asks_for_the_traces_of_a_pre_run_needs_the_disk_for_them():
    keys = ("algo=fedagg", "rounds=30", "epochs=3")
    assert estimate(*keys, "algo.mean_field=prerun")[1]["traces of the pre-run"] == 30 * 7 * P
    assert estimate(*keys)[1]["traces of the pre-run"] == 0

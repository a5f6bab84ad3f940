"""The regression on real data: `make test-data`; where a set is missing this fails."""

from pathlib import Path

import pytest

from bench.main import command
from bench.record import read_all

pytestmark = pytest.mark.data
SHORT = ["dataset=fmnist", "protocol=fedlga", "rounds=30", "local_unit=step", "lr=0.01", "normalise=true"]


def test_fedlga_and_fedavg_learn_fashion_mnist_on_the_same_clients_and_stragglers():
    mild = ["algo.scale=-0.1", "algo.gradient=update"]  # the default diverges at this rate on normalised images
    for words in (["algo=fedlga", *mild], ["algo=fedavg"]):
        assert command([*words, *SHORT, "logger=none"]) == 0
    runs = {run.result.algo: run for run in read_all(Path("runs"))}
    for run in runs.values():
        assert run.result.final > 0.6
        assert run.result.data["train"] == 60_000
        assert run.result.protocol == "fedlga"
    for column in ("gradient_evaluations", "virtual_seconds", "bytes_up"):
        assert [r[column] for r in runs["fedlga"].rows] == [r[column] for r in runs["fedavg"].rows]

"""Two tiny rounds for every data set of every protocol, on synthetic pixels where the data may not be here."""

from pathlib import Path

import pytest

from bench.main import command
from bench.prepare import resolve
from bench.record import read_all

HEAVY = {"image100"}  # VGG-16 on 144 pixels
CASES = [
    pytest.param(protocol, dataset, marks=pytest.mark.slow if dataset in HEAVY else ())
    for protocol, content in resolve.options("protocol").items()
    for dataset in content.get("datasets", {})
]


@pytest.mark.parametrize(("protocol", "dataset"), CASES)
def test_every_protocol_runs_on_every_data_set_it_covers(protocol, dataset):
    keys = ["algo=fedavg", f"dataset={dataset}", f"protocol={protocol}", "scale=smoke", "dataset.source=synthetic"]
    assert command([*keys, "logger=none"]) == 0
    (run,) = read_all(Path("runs"))
    assert run.result.protocol == protocol
    assert run.result.scale == "smoke"
    assert run.result.data["source"].startswith("synthetic")
    assert run.result.data["test"] == 256
    assert run.result.aggregations == 2

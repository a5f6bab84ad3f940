"""What a method that leaves layers out is charged: the true bytes, and beside them its paper's own figure."""

import pytest

from bench.metrics import upload_cost
from bench.prepare import compose
from bench.prepare.assemble import build

COLUMN = "upload_gb_every_round"


def rows(*keys):
    small = ["clients=5", "cohort=2", "rounds=12", "epochs=1", "test_samples=10"]
    loop = build(compose.config([*small, *keys])).loop
    found = []
    while not loop.finished:
        found.append(loop.advance())
    return found, loop.engine.layout


def test_the_papers_upload_figure_stands_beside_the_true_bytes():
    images = ["dataset=fmnist", "dataset.source=synthetic", "dataset.samples=60", "partition=iid", "model.width=0.1"]
    found, layout = rows(
        *images, "algo=fed2a", "schedule=null", "algo.P=4", "algo.D=1", "algo.rce=false", "arrivals_per_round=2"
    )
    deep = int(layout.sizes[layout.deep].sum())
    shallow = layout.size - deep
    assert deep > 0 and shallow > 0
    for row in found:
        assert row[COLUMN] == pytest.approx(upload_cost(row["version"], shallow, deep, P=4, D=1), rel=1e-12)
    assert found[-1][COLUMN] < upload_cost(12, shallow, deep, P=4, D=4)
    assert found[-1]["bytes_up"] >= 12 * 2 * 4 * shallow


@pytest.mark.parametrize("keys", [["algo=fedavg"], ["algo=fed2a", "model=mlp", "algo.rce=false"]], ids=str)
def test_there_is_none_where_everything_is_sent_or_nothing_is_shallow(keys):
    found, layout = rows(*keys)
    assert layout.deep.all() and COLUMN not in found[-1]


def test_the_time_of_aggregations_is_part_of_the_round():
    found, _ = rows("algo=fed2a")
    assert all(0 < row["aggregate_seconds"] < row["train_seconds"] for row in found)

"""All data in one place, and no exchange at all, on quadratics and on the bundled digits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from algorithms.references import Local_Only
from bench.prepare import compose
from bench.prepare.assemble import build

from .problem import agree, make

SMALL = ["dataset=digits", "protocol=none", "clients=8", "cohort=3", "rounds=4", "batch_size=40", "engine.workers=1"]


def test_every_device_goes_on_from_its_own_model_and_the_servers_stays() -> None:
    p = make(800)
    trace = p.run("local_only")
    own = dict.fromkeys(range(p.clients), p.w0)
    for t, cohort in enumerate(p.cohorts or []):
        own |= {i: p.end(i, own[i], p.steps[t, i]) for i in set(cohort)}
    agree(trace.clients["w"], np.array([own[i] for i in range(p.clients)]))
    agree(trace.w, np.array([p.w0] * (p.rounds + 1)))
    assert all(row["bytes_up"] == row["bytes_down"] == 0 for row in trace.rows)

    class Memory:
        def rows(self, name: str) -> torch.Tensor:
            return trace.clients[name]

    agree(Local_Only().deployed(trace.server, Memory(), None), trace.clients["w"])  # type: ignore[arg-type]


@pytest.mark.parametrize("partition", ["partition=dirichlet", "partition=shards"])
def test_centralised_has_one_device_with_the_samples_of_all(partition: str) -> None:
    loop = build(compose.config([*SMALL, partition, "algo=centralised"])).loop
    dealt = build(compose.config([*SMALL, partition, "algo=fedavg"])).loop
    [mine] = loop.engine.batches.samples
    assert sorted(mine) == sorted(np.concatenate(dealt.engine.batches.samples))
    assert (loop.fed.clients, loop.fed.cohort) == (1, 1) and len(loop.fed.samples) == 1


def test_centralised_is_fedavg_with_a_single_device() -> None:
    words = ["partition=iid", "momentum=0.5", "epochs=2"]
    one = build(compose.config([*SMALL, *words, "algo=fedavg", "clients=1", "cohort=1"])).loop
    pooled = build(compose.config([*SMALL, *words, "algo=centralised"])).loop
    one.engine.batches.samples[0].sort()  # as iid dealt them: which sample is drawn when depends on their order
    while not one.finished:
        one.advance()
        pooled.advance()
    assert torch.allclose(pooled.deployed()[0], one.deployed(), rtol=0, atol=1e-6)  # w + (end - w) rounds


def test_the_record_keeps_the_federation_that_it_is_a_reference_for() -> None:
    parts = build(compose.config([*SMALL, "algo=centralised"]))
    assert (parts.config["clients"], parts.config["cohort"], parts.data["clients"]) == (8, 3, 1)

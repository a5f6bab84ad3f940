"""Devices whose training diverges: the run stops, or goes on without them."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from algorithms.base import Algorithm
from bench.errors import Diverged
from bench.testing import quadratic
from tests.bench.simulation.small import LR, W0, B, N, assert_close, run, step


def run_with_one_that_diverges(algo, **keys):
    a = np.stack([np.eye(2)] * N)
    a[1] *= 1e200  # two steps of device 1 leave the range of numbers
    return quadratic(algo, a, B, **{"w0": W0, "lr": LR, "rounds": 2, "samples": [1, 2, 3, 4], "steps": 2, **keys})


@pytest.mark.parametrize("algo", ["fedavg", "fedasync"])
def test_divergence_stops_the_run_and_names_round_and_client(algo):
    with pytest.raises(Diverged, match=r"client 1 diverged") as caught:
        run_with_one_that_diverges(algo, cohorts=[[0, 2], [1, 3]] if algo == "fedavg" else None)
    assert caught.value.facts["client"] == 1
    assert "round" in caught.value.facts


def test_a_dropped_device_is_left_out_of_the_round():
    dropped = run_with_one_that_diverges("scaffold", cohorts=[[0, 1, 2], [1, 3, 1]], on_divergence="drop")
    without = run("scaffold", cohorts=[[0, 2], [3]], rounds=2, steps=2)
    assert_close(dropped.w, without.w)
    assert_close(dropped.clients["c"], without.clients["c"])


def test_a_round_in_which_everybody_was_dropped_changes_nothing():
    trace = run_with_one_that_diverges("fedavg", cohorts=[[1], [0]], on_divergence="drop")
    assert_close(trace.w, [W0, W0, step(W0, 0, 2)])


def test_an_asynchronous_device_that_was_dropped_starts_afresh():
    trace = run_with_one_that_diverges("fedasync", on_divergence="drop", rounds=9, seconds=[1.0, 1.1, 1.2, 1.3])
    assert torch.isfinite(trace.w).all()
    assert len(trace.w) == 10


def test_a_model_that_is_not_finite_though_every_update_was_stops_the_run():
    @dataclass(frozen=True, kw_only=True)
    class Divides(Algorithm):
        def aggregate(self, server, updates, fed):
            return {**server, "w": server["w"] / (1 - updates.version.max())}  # by zero in round 2

    with pytest.raises(Diverged, match="aggregated model"):
        run(Divides(), on_divergence="drop", rounds=2)

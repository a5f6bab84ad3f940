"""FedLC's rivals, AFO and CE-AFL, by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from algorithms.afo import AFO
from algorithms.base import Fed, Schedule
from algorithms.ce_afl import CE_AFL
from bench.learning.flat import Layout
from bench.testing import quadratic


def test_afo_is_fedasync_that_decays_with_one_over_staleness():
    rng = np.random.default_rng(11)
    problem = {"A": np.stack([np.diag(d) for d in rng.uniform(1, 3, (3, 4))]), "b": rng.normal(size=(3, 4))}
    keys = {"w0": np.zeros(4), "lr": 0.1, "samples": [1, 2, 3], "rounds": 20, "steps": 2, "seconds": [1, 1.7, 2.9]}
    own = {"algo.alpha": 0.6, "algo.staleness": "poly", "algo.p": 1.0, "algo.mu": 0.0}
    torch.testing.assert_close(quadratic("afo", **problem, **keys).w, quadratic("fedasync", **problem, **keys, **own).w)


def test_afo_by_hand():
    """One step makes (w + b_i)/2 of w. Device 0 is fresh: 0.6; then device 1 is one version late: 0.3."""
    trace = quadratic(
        AFO(), np.ones((2, 1, 1)), [[4.0], [8.0]], w0=[0.0], lr=0.5, rounds=2, samples=[1, 9], steps=1, seconds=[1, 1.5]
    )
    assert trace.w[:, 0].tolist() == pytest.approx([0, 0.6 * 2, 0.7 * 1.2 + 0.3 * 4])


@pytest.mark.parametrize(
    ("clients", "alpha", "buffer"), [(20, 0.5, 10), (5, 0.5, 3), (100, 0.07, 7), (10, 0.05, 1), (3, 1.0, 3)]
)
def test_ce_afl_waits_for_a_share_of_all_devices(clients, alpha, buffer):
    constants = {"rounds": 1, "epochs": 1, "lr": 0.1, "momentum": 0, "decay": 0, "layout": Layout(nn.Linear(1, 1))}
    fed = Fed(clients=clients, cohort=1, samples=torch.ones(clients), **constants)
    assert CE_AFL(alpha=alpha).schedule(fed) == Schedule(clients, buffer)


def test_ce_afl_by_hand():
    """Three devices, two make a buffer; n = 1, 1, 2. The late one adds the change it made of version 0."""
    trace = quadratic(
        CE_AFL(),
        np.ones((3, 1, 1)),
        [[1.0], [3.0], [9.0]],
        w0=[0.0],
        lr=0.5,
        rounds=3,
        samples=[1, 1, 2],
        steps=1,
        seconds=[1, 1, 1.5],
    )
    first = (0.5 + 1.5) / 2
    # at 1.5 device 2 comes, at 2 devices 0 and 1: device 0 completes the buffer
    second = first + (2 * 4.5 + 1 * (1 - first) / 2) / 3
    assert trace.w[:3, 0].tolist() == pytest.approx([0, first, second])

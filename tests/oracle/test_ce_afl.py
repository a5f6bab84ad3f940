"""CE-AFL (Liu et al., 2021, as FedLC's baseline has it) on quadratics: aggregate deltas at ceil(alpha N) arrivals."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest

from .problem import Problem, agree, arrivals, make


def derive(q: Problem, seconds: np.ndarray, buffer: int, weighting: str = "size", **terms: float) -> np.ndarray:
    w = [q.w0]
    for t, batch in enumerate(arrivals(seconds, q.clients, q.rounds, buffer)):
        share = q.weights([i for i, _ in batch], weighting)
        w.append(w[t] + sum(share[i] * (q.end(i, w[v], q.steps[v, i], **terms) - w[v]) for i, v in batch))
    return np.array(w)


@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize(("clients", "alpha", "buffer"), [(5, None, 3), (5, 0.2, 1), (5, 0.21, 2), (6, 0.5, 3)])
def test_devices_of_unequal_speed_follow_the_derivation(
    clients: int, alpha: float | None, buffer: int, weighting: str
) -> None:
    """When B = ceil(alpha N) uploads are in, w_{t+1} = w_t + sum p_i (w_i - w_{v_i}), p over those B devices, v_i the
    version downloaded (deltas: a stale device is not pulled back to w_{v_i}); those B restart with version t + 1."""
    q = make(210 + clients, clients=clients, rounds=20)
    seconds = np.random.default_rng(clients).uniform(0.5, 2.0, clients)
    seconds[0] *= 4
    expected = derive(q, seconds, buffer, weighting)
    keys = {} if alpha is None else {"algo.alpha": alpha}
    trace = q.run("ce_afl", seconds=seconds, weighting=weighting, **keys)
    agree(trace.w, expected)
    agree(trace.server["w"], expected[-1])
    assert q.run("ce_afl", seconds=seconds, weighting=weighting, concurrency=clients, buffer=buffer).w.equal(trace.w)


@pytest.mark.parametrize(("clients", "alpha"), [(10, 0.7), (10, 0.3), (3, 1 / 3), (7, 0.5), (7, 1.0), (7, 0.01)])
def test_a_share_of_the_devices_fills_the_buffer_whatever_the_rounding(clients: int, alpha: float) -> None:
    """ceil(alpha N - 1e-9): 0.7 * 10 is 7.000000000000001 in binary and still 7 devices."""
    q = make(220, clients=clients, rounds=9)
    seconds = np.random.default_rng(clients).uniform(0.5, 3.0, (q.rounds, clients))
    buffer = ceil(round(alpha * clients, 6))
    agree(q.run("ce_afl", seconds=seconds, **{"algo.alpha": alpha}).w, derive(q, seconds, buffer))


@pytest.mark.parametrize("seed", range(4))
def test_uploads_that_coincide_are_handled_in_device_order(seed: int) -> None:
    """Simultaneous uploads fill the buffer in device order; who is too late for it waits in the next one."""
    q = make(221 + seed, rounds=25)
    seconds = np.random.default_rng(seed).integers(1, 4, (q.rounds, q.clients)) / 4
    for alpha, buffer in ((0.4, 2), (0.5, 3), (0.8, 4)):
        agree(q.run("ce_afl", seconds=seconds, **{"algo.alpha": alpha}).w, derive(q, seconds, buffer))


def test_momentum_and_decay_follow_the_derivation() -> None:
    q = make(225, rounds=15)
    seconds = np.array([0.7, 1.9, 1.1, 0.45, 2.3])
    expected = derive(q, seconds, 3, momentum=0.5, decay=0.1)
    agree(q.run("ce_afl", seconds=seconds, momentum=0.5, weight_decay=0.1).w, expected)

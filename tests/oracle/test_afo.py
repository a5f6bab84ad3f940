"""AFO (Xie et al., 2019, as FedLC's baseline has it) on quadratics: FedAsync with alpha / (d + 1), no proximal term."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from .problem import Problem, agree, arrivals, make


def derive(q: Problem, seconds: np.ndarray, alpha: float = 0.6, **terms: float) -> tuple[np.ndarray, list[int]]:
    w, late = [q.w0], []
    for t, [(i, version)] in enumerate(arrivals(seconds, q.clients, q.rounds)):
        late.append(t - version)
        x = alpha / (t - version + 1)
        w.append((1 - x) * w[t] + x * q.end(i, w[version], q.steps[version, i], **terms))
    return np.array(w), late


@pytest.mark.parametrize("alpha", [None, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_devices_of_unequal_speed_follow_the_derivation(seed: int, alpha: float | None) -> None:
    """Upload t comes from the device i that finishes next, with steps[v, i] plain steps from the version v it
    downloaded; s = t - v;  x = alpha / (s + 1), alpha = 0.6 by default;  w_{t+1} = (1 - x) w_t + x w_i."""
    q = make(200 + seed, rounds=30)
    seconds = np.random.default_rng(seed).uniform(0.5, 2.0, q.clients)
    seconds[seed] = 4.7
    expected, late = derive(q, seconds, 0.6 if alpha is None else alpha)
    assert late[0] == 0 and max(late) > 6
    trace = q.run("afo", seconds=seconds, **({} if alpha is None else {"algo.alpha": alpha}))
    agree(trace.w, expected)
    agree(trace.server["w"], expected[-1])


@pytest.mark.parametrize("seed", range(3))
def test_ties_and_seconds_by_version(seed: int) -> None:
    """Multiples of 1/4 s: simultaneous uploads in device order, each aggregated before the next."""
    q = make(203 + seed, rounds=30)
    seconds = np.random.default_rng(seed).integers(1, 5, (q.rounds, q.clients)) / 4
    agree(q.run("afo", seconds=seconds).w, derive(q, seconds)[0])


def test_momentum_decay_and_weighting() -> None:
    q = make(206, rounds=20)
    seconds = np.array([0.7, 1.9, 1.1, 0.45, 2.3])
    expected = derive(q, seconds, momentum=0.5, decay=0.1)[0]
    for weighting in ("size", "uniform"):
        agree(q.run("afo", seconds=seconds, momentum=0.5, weight_decay=0.1, weighting=weighting).w, expected)


def test_it_is_fedasync_without_prox_and_the_schedule_is_N_and_1() -> None:
    """alpha (d + 1)^-1 is FedAsync's poly with p = 1."""
    q = make(207, rounds=15)
    seconds = np.array([0.7, 1.9, 1.1, 0.45, 2.3])
    own = q.run("afo", seconds=seconds).w
    agree(q.run("fedasync", seconds=seconds, **{"algo.p": 1.0, "algo.mu": 0.0}).w, own.numpy(), 1e-12)
    assert own.equal(q.run("afo", seconds=seconds, concurrency=q.clients, buffer=1).w)


def test_equal_devices_take_turns() -> None:
    """Upload t: device t mod N, version max(0, t + 1 - N), so s + 1 = min(t + 1, N)."""
    q = make(208, rounds=17)
    q = replace(q, steps=np.full_like(q.steps, 2))
    w = [q.w0]
    for t in range(q.rounds):
        x = 0.6 / min(t + 1, q.clients)
        w.append((1 - x) * w[t] + x * q.end(t % q.clients, w[max(0, t + 1 - q.clients)], 2))
    agree(q.run("afo").w, w)

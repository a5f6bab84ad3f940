"""FedCM (Xu et al., 2021) on quadratics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .problem import Problem, agree, arrivals, make


def job(p: Problem, i: int, w: np.ndarray, Delta: np.ndarray, steps: int, a: float, **terms: float) -> np.ndarray:
    """lr (a m + (1 - a) Delta) = (a lr) (m + Delta (1 - a)/a): plain steps with rate a lr and a constant drift."""
    return p.end(i, w, steps, lr=a * p.lr, drift=(1 - a) / a * Delta, **terms)


def derive(p: Problem, weighting: str = "size", a: float = 0.1, eta_g: float | None = None, **terms: float):
    w, Delta = [p.w0], np.zeros_like(p.w0)
    for t, cohort in enumerate(p.cohorts or []):
        share = p.weights(cohort, weighting)
        delta = {i: job(p, i, w[t], Delta, p.steps[t, i], a, **terms) - w[t] for i in share}
        Delta = -sum(q * delta[i] / (p.steps[t, i] * p.lr) for i, q in share.items())
        move = sum(q * delta[i] for i, q in share.items()) if eta_g is None else -eta_g * Delta
        w.append(w[t] + move)
    return np.array(w), Delta


def compare(trace: Any, expected: Any) -> None:
    w, Delta = expected
    agree(trace.w, w)
    agree(trace.server["w"], w[-1])
    agree(trace.server["Delta"], Delta)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize(("a", "eta_g"), [(0.1, None), (0.7, None), (0.1, 0.3), (0.4, 1.0), (1.0, 0.5)])
def test_plain_rounds_follow_the_derivation(seed: int, weighting: str, a: float, eta_g: float | None) -> None:
    """Delta_0 = 0; local step w <- w - lr (a g_i(w) + (1 - a) Delta_t), Delta_t frozen;            (Alg. 2)
    Delta_{t+1} = -sum p_i delta_i / (K_i lr);  w+ = w - eta_g Delta_{t+1}, or w + sum p_i delta_i without eta_g."""
    p = make(120 + seed)
    keys = {"algo.a": a} | ({} if eta_g is None else {"algo.eta_g": eta_g})
    compare(p.run("fedcm", weighting=weighting, **keys), derive(p, weighting, a, eta_g))


@pytest.mark.parametrize("eta_g", [None, 0.4])
def test_gradients_along_the_path(eta_g: float | None) -> None:
    """-delta_i / (K_i lr) = a mean_k g_i(w_k) + (1 - a) Delta: the new Delta is an exponential average of gradients,
    the first one a times theirs."""
    p, a = make(122), 0.3
    w, Delta = [p.w0], np.zeros_like(p.w0)
    for t, cohort in enumerate(p.cohorts or []):
        share, mean, move = p.weights(cohort, "size"), 0.0, 0.0
        for i, q in share.items():
            x, seen = w[t], []
            for _ in range(p.steps[t, i]):
                seen.append(p.gradient(i, x))
                x = x - p.lr * (a * seen[-1] + (1 - a) * Delta)
            mean, move = mean + q * np.mean(seen, axis=0), move + q * (x - w[t])
        Delta = a * mean + (1 - a) * Delta
        w.append(w[t] + (move if eta_g is None else -eta_g * Delta))
    keys = {"algo.a": a} | ({} if eta_g is None else {"algo.eta_g": eta_g})
    compare(p.run("fedcm", **keys), (np.array(w), Delta))


def test_the_defaults_are_those_of_the_derivation() -> None:
    """a = 0.1, no eta_g, weighting = size."""
    p = make(123)
    compare(p.run("fedcm"), derive(p))


@pytest.mark.parametrize(("momentum", "decay"), [(0.5, 0.0), (0.0, 0.1), (0.3, 0.05)])
def test_momentum_and_decay_follow_the_derivation(momentum: float, decay: float) -> None:
    """w <- w - lr (a m + (1 - a) Delta): Delta stays outside the buffer, a scales all of it; K_i lr all the same."""
    p = make(124)
    keys = {"momentum": momentum, "weight_decay": decay, "algo.a": 0.4}
    compare(p.run("fedcm", **keys), derive(p, a=0.4, momentum=momentum, decay=decay))


@pytest.mark.parametrize("eta_g", [None, 0.3])
def test_in_a_semi_asynchronous_schedule(eta_g: float | None) -> None:
    """Schedule (N, 2): the job uses the Delta of the version it downloaded."""
    p, a = make(125, rounds=12), 0.4
    seconds = np.random.default_rng(125).uniform(0.5, 4.0, p.clients)
    w, Delta = [p.w0], [np.zeros_like(p.w0)]
    for t, batch in enumerate(arrivals(seconds, p.clients, p.rounds, 2)):
        share = p.weights([i for i, _ in batch], "size")
        delta = {i: job(p, i, w[v], Delta[v], p.steps[v, i], a) - w[v] for i, v in batch}
        Delta.append(-sum(share[i] * delta[i] / (p.steps[v, i] * p.lr) for i, v in batch))
        w.append(w[t] + (sum(share[i] * delta[i] for i, _ in batch) if eta_g is None else -eta_g * Delta[-1]))
    keys = {"algo.a": a} | ({} if eta_g is None else {"algo.eta_g": eta_g})
    compare(p.run("fedcm", concurrency=p.clients, buffer=2, seconds=seconds, **keys), (np.array(w), Delta[-1]))


def test_numbers_worked_out_by_hand_come_out() -> None:
    """F = w^2/2, lr = 1/2, a = 1/2, w = 4: g = 4, w = 3, Delta = 2.  Two steps of 1/2 (g/2 + 1): 3 -> 7/4 -> 13/16,
    Delta = (3 - 13/16)/1 = 35/16.  With eta_g = 1: w = 4 - 2 = 2, then 2 -> 1 -> 1/4, Delta = 7/4, w = 2 - 7/4."""
    p = Problem(
        np.ones((1, 1, 1)), np.zeros((1, 1)), np.array([4.0]), np.ones(1), 0.5, np.array([[1], [2]]), [[0], [0]]
    )
    compare(p.run("fedcm", **{"algo.a": 0.5}), ([[4.0], [3.0], [13 / 16]], [35 / 16]))
    compare(p.run("fedcm", **{"algo.a": 0.5, "algo.eta_g": 1.0}), ([[4.0], [2.0], [0.25]], [1.75]))

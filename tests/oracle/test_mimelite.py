"""MimeLite with server momentum (Karimireddy et al., 2021) on quadratics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from .problem import Problem, agree, arrivals, make


def job(p: Problem, i: int, w: np.ndarray, m: np.ndarray, steps: int, beta: float, **terms: float) -> np.ndarray:
    """lr ((1-b) u + b m) = ((1-b) lr) (u + m b/(1-b)): plain steps with rate (1-b) lr and a constant drift."""
    return p.end(i, w, steps, lr=(1 - beta) * p.lr, drift=beta / (1 - beta) * m, **terms)


def derive(p: Problem, weighting: str = "size", beta: float = 0.1, **terms: float):
    w, m = [p.w0], np.zeros_like(p.w0)
    for t, cohort in enumerate(p.cohorts or []):
        share = p.weights(cohort, weighting)
        w.append(sum(q * job(p, i, w[t], m, p.steps[t, i], beta, **terms) for i, q in share.items()))
        m = (1 - beta) * np.mean([p.gradient(i, w[t]) for i in share], axis=0) + beta * m
    return np.array(w), m


def compare(trace: Any, expected: Any) -> None:
    w, m = expected
    agree(trace.w, w)
    agree(trace.server["w"], w[-1])
    agree(trace.server["m"], m)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9])
def test_plain_rounds_follow_the_derivation(seed: int, weighting: str, beta: float) -> None:
    """m_0 = 0; local step w <- w - lr ((1-b) g_i(w) + b m), m frozen; w+ = sum p_i w_i;
    m+ = (1-b) mean_S grad F_i(w) + b m: at the model that was sent, each distinct device once, unweighted."""
    p = make(130 + seed)
    compare(p.run("mimelite", weighting=weighting, **{"algo.beta": beta}), derive(p, weighting, beta))


def test_the_defaults_are_those_of_the_derivation() -> None:
    """beta = 0.1, weighting = size."""
    p = make(133)
    compare(p.run("mimelite"), derive(p))


def test_m_unrolled_and_steps_by_hand() -> None:
    """m_T = (1-b) sum_t b^{T-1-t} mean_{S_t} (A_i w_t - b_i): from the models alone; the steps one after the other."""
    p, beta = make(134), 0.6
    trace = p.run("mimelite", **{"algo.beta": beta})
    w, m = trace.w.numpy(), np.zeros_like(p.w0)
    for t, cohort in enumerate(p.cohorts or []):
        share, new = p.weights(cohort, "size"), 0.0
        for i, q in share.items():
            x = w[t]
            for _ in range(p.steps[t, i]):
                x = x - p.lr * ((1 - beta) * (p.A[i] @ x - p.b[i]) + beta * m)
            new = new + q * x
        agree(w[t + 1], new)
        seen = [sorted(set(c)) for c in (p.cohorts or [])[: t + 1]]
        means = [p.A[s].mean(0) @ w[k] - p.b[s].mean(0) for k, s in enumerate(seen)]
        m = (1 - beta) * sum(beta ** (t - k) * g for k, g in enumerate(means))
    agree(trace.server["m"], m)


@pytest.mark.parametrize(("momentum", "decay"), [(0.5, 0.0), (0.0, 0.1), (0.3, 0.05)])
def test_momentum_and_decay_follow_the_derivation(momentum: float, decay: float) -> None:
    """The run's momentum u <- rho u + g + decay w is a buffer of its own; grad F_i in m+ has no decay in it."""
    p = make(135)
    keys = {"momentum": momentum, "weight_decay": decay, "algo.beta": 0.4}
    compare(p.run("mimelite", **keys), derive(p, beta=0.4, momentum=momentum, decay=decay))


def test_the_gradient_does_not_depend_on_the_steps() -> None:
    """Full-batch gradients at the model that was sent: m after one round is the same however long devices train."""
    p = make(136)
    p = replace(p, cohorts=(p.cohorts or [])[:1], steps=p.steps[:1])
    one, many = (p.run("mimelite", steps=steps) for steps in (1, 7))
    agree(one.server["m"], many.server["m"], 1e-13)
    agree(one.server["m"], 0.9 * np.mean([p.gradient(i, p.w0) for i in (0, 2, 3)], axis=0))


def test_in_a_semi_asynchronous_schedule() -> None:
    """Schedule (N, 2): m and the gradient's point are those of the version each contributor downloaded;
    w+ = w + sum p_i delta_i."""
    p, beta = make(137, rounds=12), 0.4
    seconds = np.random.default_rng(137).uniform(0.5, 4.0, p.clients)
    w, m = [p.w0], [np.zeros_like(p.w0)]
    for t, batch in enumerate(arrivals(seconds, p.clients, p.rounds, 2)):
        share = p.weights([i for i, _ in batch], "size")
        w.append(w[t] + sum(share[i] * (job(p, i, w[v], m[v], p.steps[v, i], beta) - w[v]) for i, v in batch))
        m.append((1 - beta) * np.mean([p.gradient(i, w[v]) for i, v in batch], axis=0) + beta * m[t])
    keys = {"concurrency": p.clients, "buffer": 2, "seconds": seconds, "algo.beta": beta}
    compare(p.run("mimelite", **keys), (np.array(w), m[-1]))

"""FedNova (Wang et al., 2020) on quadratics, with the authors' momentum and proximal local solvers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from .problem import Problem, agree, arrivals, make

SOLVERS = [(0.0, 0.0), (0.0, 0.6), (0.0, 0.9), (0.4, 0.0), (1.5, 0.0), (0.4, 0.6), (1.5, 0.9)]  # mu, momentum


def coefficients(steps: int, lr: float, mu: float, rho: float) -> np.ndarray:
    """a with delta = -lr G a, G = [g(w_0) ... g(w_{K-1})]: gradient k is still in the buffer with rho^{j-k} at step
    j >= k, and what step j moved is shrunk by 1 - lr mu in each of the K - 1 - j steps after it."""
    j, k = np.arange(steps)[:, None], np.arange(steps)[None, :]
    remembered = np.where(j >= k, float(rho) ** np.maximum(j - k, 0), 0.0)
    return ((1 - lr * mu) ** (steps - 1 - j) * remembered).sum(axis=0)


def job(p: Problem, i: int, w: np.ndarray, steps: int, mu: float = 0.0, momentum: float = 0.0, decay: float = 0.0):
    """The normalised direction d_i = G a / |a|_1, |a|_1, K, from the gradients along the path; G a is what moved w."""
    path = [p.end(i, w, k, prox=mu, momentum=momentum, decay=decay) for k in range(steps + 1)]
    G = np.array([p.gradient(i, x) + decay * x for x in path[:-1]]).T
    a = coefficients(steps, p.lr, mu, momentum)
    np.testing.assert_allclose(path[-1] - w, -p.lr * G @ a, atol=1e-11)
    return G @ a / a.sum(), a.sum(), steps


def step(p: Problem, share: dict[int, float], jobs: dict[int, tuple], mu: float) -> np.ndarray:
    tau = sum(q * jobs[i][2 if mu else 1] for i, q in share.items())
    return -tau * p.lr * sum(q * jobs[i][0] for i, q in share.items())


def derive(p: Problem, weighting: str = "size", mu: float = 0.0, **terms: float) -> np.ndarray:
    w = [p.w0]
    for t, cohort in enumerate(p.cohorts or []):
        share = p.weights(cohort, weighting)
        jobs = {i: job(p, i, w[t], int(p.steps[t, i]), mu, **terms) for i in share}
        w.append(w[t] + step(p, share, jobs, mu))
    return np.array(w)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize(("mu", "momentum"), SOLVERS)
def test_every_local_solver_is_normalised_by_its_own_length(
    seed: int, weighting: str, mu: float, momentum: float
) -> None:
    """delta_i = -lr G_i a_i;  w+ = w - tau_eff lr sum p_i G_i a_i / |a_i|_1                       (Eqs. 4, 6)
    tau_eff = sum p_i |a_i|_1 without a proximal term, sum p_i K_i with one (the authors' code);  p_i counts a device
    as often as it was drawn."""
    p = make(100 + seed)
    expected = derive(p, weighting, mu, momentum=momentum)
    trace = p.run("fednova", weighting=weighting, momentum=momentum, **{"algo.mu": mu})
    agree(trace.w, expected)
    agree(trace.server["w"], expected[-1])
    assert (
        np.abs(expected - p.run("fedprox", weighting=weighting, momentum=momentum, **{"algo.mu": mu}).w.numpy()).max()
        > 1e-3
    )


@pytest.mark.parametrize("mu", [0.0, 0.5])
def test_weight_decay_is_no_part_of_a(mu: float) -> None:
    """Decay is a gradient like any other: it is in G, not in a."""
    p = make(103)
    expected = derive(p, mu=mu, momentum=0.5, decay=0.2)
    agree(p.run("fednova", momentum=0.5, weight_decay=0.2, **{"algo.mu": mu}).w, expected)


def test_the_defaults_are_those_of_the_derivation() -> None:
    """mu = 0, weighting = size."""
    p = make(104)
    agree(p.run("fednova").w, derive(p))


@pytest.mark.parametrize("rho", [0.3, 0.9])
def test_the_papers_closed_forms(rho: float) -> None:
    """|a|_1 = [K - rho (1 - rho^K)/(1 - rho)]/(1 - rho) with momentum, (1 - (1 - lr mu)^K)/(lr mu) with the proximal
    term; |a|_1 by the recursions of the authors' code (m <- rho m + 1, a <- (1 - lr mu) a + m) with both."""
    for K in range(1, 9):
        np.testing.assert_allclose(
            coefficients(K, 0.1, 0.0, rho).sum(), (K - rho * (1 - rho**K) / (1 - rho)) / (1 - rho)
        )
        np.testing.assert_allclose(coefficients(K, 0.1, 2.0, 0.0).sum(), (1 - 0.8**K) / 0.2)
        a = m = 0.0
        for _ in range(K):
            m = rho * m + 1
            a = 0.8 * a + m
        np.testing.assert_allclose(coefficients(K, 0.1, 2.0, rho).sum(), a)


def test_numbers_worked_out_by_hand_come_out() -> None:
    """F_0 = w^2/2, one step; F_1 = w^2/2 - 4 w, two; n = 1, 3; lr = 1/2, w = 2.  Plain: delta_0 = -1, a_0 = 1; w_1:
    2 -> 3 -> 7/2, delta_1 = 3/2, a_1 = 2; tau = 7/4; w+ = 2 + 7/4 (-1/4 + 9/16) = 2 + 35/64.
    mu = 1: w_1: 2 -> 3 -> 3 + (1 - 1)/2 = 3, delta_1 = 1, a_1 = 1/2 + 1; tau = 7/4 (steps); w+ = 2 + 7/4 (-1/4 + 1/2).
    momentum 1/2: w_1: m = -2, w = 3; m = -2, w = 4; delta_1 = 2, a_1 = 1 + 3/2; tau = 1/4 + 15/8 = 17/8;
    w+ = 2 + 17/8 (-1/4 + 3/5)."""
    A, b = np.ones((2, 1, 1)), np.array([[0.0], [4.0]])
    p = Problem(A, b, np.array([2.0]), np.array([1, 3]), 0.5, np.array([[1, 2]]), [[0, 1]])
    agree(p.run("fednova").w[1], [2 + 35 / 64], 1e-14)
    agree(p.run("fednova", **{"algo.mu": 1.0}).w[1], [2 + 7 / 16], 1e-14)
    agree(p.run("fednova", momentum=0.5).w[1], [2 + 17 / 8 * 0.35], 1e-14)


def test_cohorts_of_unequal_size() -> None:
    p = replace(make(105), cohorts=[[2], [4, 0, 1], [3, 3, 3, 0, 0], [0, 1, 2, 3, 4], [1, 1]])
    agree(p.run("fednova", momentum=0.4).w, derive(p, momentum=0.4))


@pytest.mark.parametrize("mu", [0.0, 0.7])
def test_in_a_semi_asynchronous_schedule(mu: float) -> None:
    """Schedule (N, 2): direction and a of the version each contributor downloaded."""
    p = make(106, rounds=12)
    seconds = np.random.default_rng(106).uniform(0.5, 4.0, p.clients)
    w = [p.w0]
    for t, batch in enumerate(arrivals(seconds, p.clients, p.rounds, 2)):
        share = p.weights([i for i, _ in batch], "size")
        jobs = {i: job(p, i, w[v], int(p.steps[v, i]), mu) for i, v in batch}
        w.append(w[t] + step(p, share, jobs, mu))
    agree(p.run("fednova", concurrency=p.clients, buffer=2, seconds=seconds, **{"algo.mu": mu}).w, w)

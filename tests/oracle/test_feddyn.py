"""FedDyn (Acar et al., 2021) on quadratics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from .problem import Problem, agree, make


def derive(p: Problem, weighting: str = "size", alpha: float = 0.01, **terms: float):
    w, h, own = [p.w0], np.zeros_like(p.w0), np.zeros_like(p.b)
    for t, cohort in enumerate(p.cohorts or []):
        share = p.weights(cohort, weighting)
        end = {i: p.end(i, w[t], p.steps[t, i], prox=alpha, drift=-own[i], **terms) for i in share}
        for i in share:
            own[i] = own[i] - alpha * (end[i] - w[t])
        h = h - alpha / p.clients * sum(end[i] - w[t] for i in share)
        w.append(sum(q * end[i] for i, q in share.items()) - h / alpha)
    return np.array(w), h, own


def compare(trace: Any, expected: Any) -> None:
    w, h, own = expected
    agree(trace.w, w)
    agree(trace.server["w"], w[-1])
    agree(trace.server["h"], h)
    agree(trace.clients["h"], own)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize("alpha", [0.01, 0.1, 1.0])
def test_plain_rounds_follow_the_derivation(seed: int, weighting: str, alpha: float) -> None:
    """Local step w <- w - lr (g_i(w) - h_i + alpha (w - w_t));  h_i <- h_i - alpha (w_i - w_t)      (Alg. 1)
    h <- h - (alpha/N) sum_S (w_i - w_t), each distinct device once and unweighted, N all devices;
    w+ = sum p_i w_i - h/alpha, p_i counting a device as often as it was drawn."""
    p = make(110 + seed)
    compare(p.run("feddyn", weighting=weighting, **{"algo.alpha": alpha}), derive(p, weighting, alpha))


@pytest.mark.parametrize("weighting", ["size", "uniform"])
def test_one_quadratic_per_job(weighting: str) -> None:
    """The job is gradient descent on the quadratic (A_i + alpha, b_i + h_i + alpha w_t): with its optimum x,
    w_i = x + (I - lr (A_i + alpha))^K (w_t - x)."""
    p, alpha = make(112), 0.3
    w, h, own = [p.w0], np.zeros_like(p.w0), np.zeros_like(p.b)
    for t, cohort in enumerate(p.cohorts or []):
        share, mean, total, new = p.weights(cohort, weighting), 0.0, 0.0, own.copy()
        for i, q in share.items():
            hessian = p.A[i] + alpha * np.eye(len(h))
            x = np.linalg.solve(hessian, p.b[i] + own[i] + alpha * w[t])
            shrink = np.linalg.matrix_power(np.eye(len(h)) - p.lr * hessian, p.steps[t, i])
            end = x + shrink @ (w[t] - x)
            mean, total, new[i] = mean + q * end, total + end - w[t], own[i] - alpha * (end - w[t])
        own, h = new, h - alpha * total / p.clients
        w.append(mean - h / alpha)
    compare(p.run("feddyn", weighting=weighting, **{"algo.alpha": alpha}), (np.array(w), h, own))


def test_the_defaults_are_those_of_the_derivation() -> None:
    """alpha = 0.01, weighting = size."""
    p = make(113)
    compare(p.run("feddyn"), derive(p))


@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize(("momentum", "decay"), [(0.5, 0.0), (0.0, 0.1), (0.3, 0.05)])
def test_momentum_and_decay_follow_the_derivation(weighting: str, momentum: float, decay: float) -> None:
    """-h_i and the proximal term stay outside the momentum buffer."""
    p = make(114)
    keys = {"momentum": momentum, "weight_decay": decay, "weighting": weighting, "algo.alpha": 0.2}
    compare(p.run("feddyn", **keys), derive(p, weighting, 0.2, momentum=momentum, decay=decay))


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5])
def test_the_servers_h_is_the_mean_of_the_clients(rounds: int) -> None:
    """Both move by -alpha delta_i, once a round: h = (1/N) sum_i h_i; a device that never took part has h_i = 0."""
    p = make(115)
    p = replace(p, steps=p.steps[:rounds], cohorts=[[i for i in c if i != 4] for c in (p.cohorts or [])[:rounds]])
    trace = p.run("feddyn", **{"algo.alpha": 0.2})
    agree(trace.server["h"], trace.clients["h"].mean(0), 1e-12)
    assert trace.clients["h"].shape == (p.clients, len(p.w0)) and not trace.clients["h"][4].any()


def test_numbers_worked_out_by_hand_come_out() -> None:
    """F_0 = w^2/2, F_1 = w^2/2 - 4 w, lr = 1/2, alpha = 1, one step each, n equal, w = 2.
    Round 1: w_0 = 1, w_1 = 3; h_0 = 1, h_1 = -1; h = 0; w = 2.
    Round 2, device 0 alone: w_0 = 2 - (2 - 1)/2 = 3/2, h_0 = 1 + 1/2; h = 0 + 1/4; w = 3/2 - 1/4."""
    A, b = np.ones((2, 1, 1)), np.array([[0.0], [4.0]])
    p = Problem(A, b, np.array([2.0]), np.array([5, 5]), 0.5, np.ones((2, 2), int), [[0, 1], [0]])
    trace = p.run("feddyn", **{"algo.alpha": 1.0})
    agree(trace.w, [[2.0], [2.0], [1.25]], 1e-14)
    agree(trace.server["h"], [0.25], 1e-14)
    agree(trace.clients["h"], [[1.5], [-1.0]], 1e-14)

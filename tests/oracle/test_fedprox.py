"""FedProx (Li et al., 2020) on quadratics."""

from __future__ import annotations

import numpy as np
import pytest

from algorithms.fedprox import FedProx

from .problem import Problem, agree, make

MU = {"algo.mu": 0.4}


def derive(p: Problem, mu: float, weighting: str = "size", **terms: float) -> np.ndarray:
    w = [p.w0]
    for t, cohort in enumerate(p.cohorts or []):
        share = p.weights(cohort, weighting)
        w.append(sum(q * p.end(i, w[t], p.steps[t, i], prox=mu, **terms) for i, q in share.items()))
    return np.array(w)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weighting", ["size", "uniform"])
def test_plain_rounds_follow_the_derivation(seed: int, weighting: str) -> None:
    """F_i(w) + (mu/2)|w - w_t|^2 is the quadratic (A_i + mu, b_i + mu w_t): its optimum is x = (A_i + mu)^-1 (b_i + mu
    w_t), and w_i = x + (I - lr (A_i + mu))^{K_i} (w_t - x);  w_{t+1} = sum p_i w_i."""
    p, mu = make(10 + seed), 0.4
    w = [p.w0]
    for t, cohort in enumerate(p.cohorts or []):
        new = np.zeros_like(p.w0)
        for i, q in p.weights(cohort, weighting).items():
            hessian = p.A[i] + mu * np.eye(len(p.w0))
            best = np.linalg.solve(hessian, p.b[i] + mu * w[t])
            shrink = np.linalg.matrix_power(np.eye(len(p.w0)) - p.lr * hessian, p.steps[t, i])
            new += q * (best + shrink @ (w[t] - best))
        w.append(new)
    np.testing.assert_allclose(derive(p, mu, weighting), w, atol=1e-12)
    trace = p.run("fedprox", weighting=weighting, **MU)
    agree(trace.w, w)
    agree(trace.server["w"], w[-1])


@pytest.mark.parametrize("weighting", ["size", "uniform"])
def test_with_momentum_and_decay(weighting: str) -> None:
    """The proximal term stays outside the momentum buffer: w <- w - lr (m + mu (w - w_t)), m <- 0.6 m + g + 0.1 w."""
    p = make(14)
    expected = derive(p, 0.4, weighting, momentum=0.6, decay=0.1)
    agree(p.run("fedprox", momentum=0.6, weight_decay=0.1, weighting=weighting, **MU).w, expected)


def test_the_default_mu_and_an_instance() -> None:
    p = make(15)
    agree(p.run("fedprox").w, derive(p, 0.01))
    agree(p.run(FedProx(mu=0.7)).w, derive(p, 0.7))

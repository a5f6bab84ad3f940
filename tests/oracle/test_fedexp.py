"""FedExP (Jhunjhunwala et al., 2023) on quadratics."""

from __future__ import annotations

import numpy as np
import pytest

from algorithms.fedexp import FedExP
from bench.testing import quadratic

from .problem import Problem, agree, make


def derive(q: Problem, weighting: str, epsilon: float) -> tuple[np.ndarray, list[float]]:
    w, rates = [q.w0], []
    for t, cohort in enumerate(q.cohorts or []):
        share = q.weights(cohort, weighting)
        moves = {i: q.end(i, w[t], q.steps[t, i]) - w[t] for i in share}
        mean = sum(share[i] * moves[i] for i in share)
        spread = sum(share[i] * float(moves[i] @ moves[i]) for i in share)
        rates.append(max(1.0, spread / (2 * (float(mean @ mean) + epsilon))))
        w.append(w[t] + rates[t] * mean)
    return np.array(w), rates


@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize("epsilon", [0.0, 0.001, 0.05, 10.0])
@pytest.mark.parametrize("seed", range(3))
def test_rounds_follow_the_derivation(seed: int, epsilon: float, weighting: str) -> None:
    """eta = max(1, sum p_i |delta_i|^2 / (2 (|D|^2 + epsilon))), D = sum p_i delta_i;  w <- w + eta D."""
    q = make(320 + seed)
    expected, rates = derive(q, weighting, epsilon)
    trace = q.run("fedexp", weighting=weighting, **{"algo.epsilon": epsilon})
    agree(trace.w, expected)
    np.testing.assert_allclose([row["eta_g"] for row in trace.rows], rates, rtol=1e-9)
    assert epsilon in (0.001, 0.05) or (max(rates) > 1) == (epsilon == 0)


def test_with_a_large_epsilon_it_is_fedavg() -> None:
    q = make(323)
    assert q.run("fedexp", **{"algo.epsilon": 1e9}).w.equal(q.run("fedavg").w)


def test_the_mean_of_the_last_two_models_is_evaluated() -> None:
    q = make(324)
    trace = q.run("fedexp")
    agree(FedExP().deployed(trace.server, None, None), (trace.w[-1] + trace.w[-2]) / 2)  # type: ignore[arg-type]


def test_devices_that_do_not_move_leave_the_server_where_it_is() -> None:
    """0 / 0 at epsilon = 0 is no step, not NaN."""
    w, zeros = [1.0, 2.0], np.zeros((3, 2))
    trace = quadratic(
        "fedexp",
        np.zeros((3, 2, 2)),
        zeros,
        w0=w,
        lr=0.1,
        rounds=2,
        samples=[1, 2, 3],
        steps=1,
        **{"algo.epsilon": 0.0},
    )
    agree(trace.w, np.array([w] * 3))

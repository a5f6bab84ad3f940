"""FedAvg (McMahan et al., 2017) on quadratics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from .problem import Problem, agree, arrivals, make


def derive(p: Problem, weighting: str = "size", **terms: float) -> np.ndarray:
    w = [p.w0]
    for t, cohort in enumerate(p.cohorts or []):
        share = p.weights(cohort, weighting)
        w.append(sum(q * p.end(i, w[t], p.steps[t, i], **terms) for i, q in share.items()))
    return np.array(w)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weighting", ["size", "uniform"])
def test_plain_rounds_follow_the_derivation(seed: int, weighting: str) -> None:
    """w_i = w_i* + (I - lr A_i)^{K_i} (w - w_i*), A_i w_i* = b_i; w+ = sum p_i w_i, p_i ~ count_i n_i or count_i."""
    p = make(seed)
    w = [p.w0]
    for t, cohort in enumerate(p.cohorts or []):
        new = np.zeros_like(p.w0)
        for i, q in p.weights(cohort, weighting).items():
            best = np.linalg.solve(p.A[i], p.b[i])
            shrink = np.linalg.matrix_power(np.eye(len(best)) - p.lr * p.A[i], p.steps[t, i])
            new += q * (best + shrink @ (w[t] - best))
        w.append(new)
    np.testing.assert_allclose(derive(p, weighting), w, atol=1e-12)
    trace = p.run("fedavg", weighting=weighting)
    assert trace.w.shape == (p.rounds + 1, len(p.w0))
    agree(trace.w, w)
    agree(trace.server["w"], w[-1])


def test_size_is_the_default_weighting() -> None:
    p = make(3)
    agree(p.run("fedavg").w, derive(p, "size"))
    assert np.abs(derive(p, "size") - derive(p, "uniform")).max() > 1e-3


@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize(("momentum", "decay"), [(0.9, 0.0), (0.0, 0.2), (0.5, 0.05)])
def test_momentum_and_decay_follow_the_derivation(momentum: float, decay: float, weighting: str) -> None:
    """m <- mu m + (A_i + decay) w - b_i, w <- w - lr m, m = 0 at each dispatch: z -> M z, z = (w, m, 1), K_i times."""
    p = make(4)
    expected = derive(p, weighting, momentum=momentum, decay=decay)
    agree(p.run("fedavg", momentum=momentum, weight_decay=decay, weighting=weighting).w, expected)
    assert np.abs(expected - derive(p, weighting)).max() > 1e-3


def test_momentum_worked_out_by_hand_comes_out() -> None:
    """A = 1, b = 0, lr = 1/2, momentum 1/2, decay 1, w = 1: m = 2, w = 0; then m = 1 + 0, w = -1/2; next round from
    m = 0: w = -1/2, m = -1, w = 0; m = -1/2, w = 1/4."""
    p = Problem(np.ones((1, 1, 1)), np.zeros((1, 1)), np.ones(1), np.ones(1), 0.5, np.full((2, 1), 2), [[0], [0]])
    agree(p.run("fedavg", momentum=0.5, weight_decay=1.0).w, [[1.0], [-0.5], [0.25]])


@pytest.mark.parametrize("weighting", ["size", "uniform"])
def test_cohorts_of_unequal_size(weighting: str) -> None:
    p = replace(make(5), cohorts=[[2], [4, 0, 1], [3, 3, 3, 0, 0], [0, 1, 2, 3, 4], [1, 1]])
    agree(p.run("fedavg", weighting=weighting).w, derive(p, weighting))


def test_steps_as_a_number_and_lists_for_arrays() -> None:
    p = make(6)
    uniform = replace(p, steps=np.full_like(p.steps, 3))
    agree(p.run("fedavg", steps=3).w, derive(uniform))
    lists = replace(p, **{name: getattr(p, name).tolist() for name in ("A", "b", "w0", "samples", "steps")})
    agree(lists.run("fedavg").w, derive(p))


@pytest.mark.parametrize("buffer", [2, 3])
@pytest.mark.parametrize("weighting", ["size", "uniform"])
def test_in_a_semi_asynchronous_schedule(buffer: int, weighting: str) -> None:
    """Schedule (N, buffer): w_{t+1} = w_t + sum p_i (w_i - w_{v_i}), v_i downloaded, K_i = steps[v_i, i]."""
    p = make(7, rounds=12)
    seconds = np.random.default_rng(7).uniform(0.5, 4.0, p.clients)
    w = [p.w0]
    for t, batch in enumerate(arrivals(seconds, p.clients, p.rounds, buffer)):
        share = p.weights([i for i, _ in batch], weighting)
        w.append(w[t] + sum(share[i] * (p.end(i, w[v], p.steps[v, i]) - w[v]) for i, v in batch))
    keys = {"concurrency": p.clients, "buffer": buffer, "weighting": weighting, "seconds": seconds}
    agree(p.run("fedavg", **keys).w, w)

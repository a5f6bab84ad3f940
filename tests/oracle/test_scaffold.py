"""SCAFFOLD (Karimireddy et al., 2020), option II, on quadratics; `c` is FedLGA's factor on the control variate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from .problem import Problem, agree, arrivals, make


def job(p: Problem, i: int, w: np.ndarray, c: np.ndarray, own: np.ndarray, steps: int, factor: float, **terms: float):
    """The device's model and its new c_i = f (c_i - c) - delta / (K_i lr)."""
    end = p.end(i, w, steps, drift=factor * (c - own), **terms)
    return end, factor * (own - c) - (end - w) / (steps * p.lr)


def derive(p: Problem, weighting: str = "size", eta_g: float = 1.0, factor: float = 1.0, **terms: float):
    w, c, own = [p.w0], np.zeros_like(p.w0), np.zeros_like(p.b)
    for t, cohort in enumerate(p.cohorts or []):
        share = p.weights(cohort, weighting)
        done = {i: job(p, i, w[t], c, own[i], p.steps[t, i], factor, **terms) for i in share}
        w.append(w[t] + eta_g * sum(q * (done[i][0] - w[t]) for i, q in share.items()))
        c = c + sum(done[i][1] - own[i] for i in share) / p.clients
        for i in share:
            own[i] = done[i][1]
    return np.array(w), c, own


def compare(trace, expected) -> None:
    w, c, own = expected
    agree(trace.w, w)
    agree(trace.server["w"], w[-1])
    agree(trace.server["c"], c)
    agree(trace.clients["c"], own)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize(("eta_g", "factor"), [(1.0, 1.0), (0.7, 1.0), (1.0, 0.5), (1.3, 2.0), (1.0, 0.0)])
def test_plain_rounds_follow_the_derivation(seed: int, weighting: str, eta_g: float, factor: float) -> None:
    """Local step w <- w - lr (A_i w - b_i + f (c - c_i)): gradient descent on (A_i, b_i - f (c - c_i)).
    c_i+ = f (c_i - c) - delta_i / (K_i lr), once per distinct device;  c += sum_S (c_i+ - c_i) / N;
    w += eta_g sum p_i delta_i, a device drawn twice counting twice in p alone."""
    p = make(20 + seed)
    keys = {"algo.eta_g": eta_g, "algo.c": factor}
    compare(p.run("scaffold", weighting=weighting, **keys), derive(p, weighting, eta_g, factor))


def test_the_defaults_are_those_of_the_derivation() -> None:
    """eta_g = 1, c = 1, weighting = size."""
    p = make(23)
    compare(p.run("scaffold"), derive(p))


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, 2.0])
def test_the_control_variate_is_the_mean_raw_gradient(factor: float) -> None:
    """-delta/(K lr) = mean_k g(w_k) + f (c - c_i), hence c_i+ = mean_k g(w_k) for every factor: the mean of the raw
    gradients along the device's own path in the last round it took part in."""
    p = make(24)
    w, c, own = [p.w0], np.zeros_like(p.w0), np.zeros_like(p.b)
    for t, cohort in enumerate(p.cohorts or []):
        share = p.weights(cohort, "size")
        new = own.copy()
        step = np.zeros_like(p.w0)
        for i, q in share.items():
            path = [p.end(i, w[t], k, drift=factor * (c - own[i])) for k in range(p.steps[t, i] + 1)]
            new[i] = np.mean([p.gradient(i, x) for x in path[:-1]], axis=0)
            step += q * (path[-1] - w[t])
        w.append(w[t] + step)
        c, own = c + (new - own).sum(axis=0) / p.clients, new
    compare(p.run("scaffold", **{"algo.c": factor}), (w, c, own))


@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize(("momentum", "decay"), [(0.5, 0.0), (0.0, 0.1), (0.4, 0.05)])
def test_momentum_and_decay_follow_the_derivation(weighting: str, momentum: float, decay: float) -> None:
    """The drift stays outside the momentum buffer; lr_sum is K_i lr all the same."""
    p = make(25)
    expected = derive(p, weighting, momentum=momentum, decay=decay)
    compare(p.run("scaffold", weighting=weighting, momentum=momentum, weight_decay=decay), expected)


def test_a_device_that_never_takes_part_keeps_zero() -> None:
    p = replace(make(26), cohorts=[[0, 1], [1, 1], [3, 0], [0, 3], [1, 3]])
    trace = p.run("scaffold")
    compare(trace, derive(p))
    assert not trace.clients["c"][2].any() and not trace.clients["c"][4].any()
    assert trace.clients["c"].shape == (p.clients, len(p.w0))


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_in_a_semi_asynchronous_schedule(factor: float) -> None:
    """Schedule (N, 2): the job uses the c of the version it downloaded; its c_i is its own last one, which nobody else
    writes; c moves by (1/N) sum (c_i+ - c_i) when its upload is aggregated."""
    p = make(27, rounds=12)
    seconds = np.random.default_rng(27).uniform(0.5, 4.0, p.clients)
    w, c, own = [p.w0], [np.zeros_like(p.w0)], np.zeros_like(p.b)
    for t, batch in enumerate(arrivals(seconds, p.clients, p.rounds, 2)):
        share = p.weights([i for i, _ in batch], "size")
        done = {i: job(p, i, w[v], c[v], own[i], p.steps[v, i], factor) for i, v in batch}
        w.append(w[t] + sum(share[i] * (done[i][0] - w[v]) for i, v in batch))
        c.append(c[t] + sum(done[i][1] - own[i] for i, _ in batch) / p.clients)
        for i, _ in batch:
            own[i] = done[i][1]
    keys = {"concurrency": p.clients, "buffer": 2, "seconds": seconds, "algo.c": factor}
    compare(p.run("scaffold", **keys), (w, c[-1], own))

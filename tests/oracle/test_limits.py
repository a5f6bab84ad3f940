"""Where methods must coincide, and what must not matter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from .problem import Problem, agree, make

SYNC = ["fedavg", "fedprox", "scaffold", "fedlga"]


def full(p: Problem, rounds: int, steps: int | None = None) -> Problem:
    """Everybody in every round."""
    rng = np.random.default_rng(rounds)
    shape = (rounds, p.clients)
    granted = rng.integers(1, 5, shape) if steps is None else np.full(shape, steps)
    return replace(p, steps=granted, cohorts=[list(range(p.clients))] * rounds)


@pytest.mark.parametrize("keys", [{}, {"momentum": 0.5, "weight_decay": 0.1}, {"weighting": "uniform"}], ids=str)
def test_fedprox_without_mu_is_fedavg_bit_for_bit(keys: dict[str, Any]) -> None:
    for seed in range(3):
        p = make(60 + seed)
        assert p.run("fedprox", **{"algo.mu": 0.0}, **keys).w.equal(p.run("fedavg", **keys).w)


@pytest.mark.parametrize("factor", [0.0, 1.0])
def test_scaffold_with_one_client_is_sgd(factor: float) -> None:
    """c = c_1 always, so the drift is zero for every factor; server c == the client's."""
    p = replace(make(63, clients=1, rounds=6), cohorts=[[0]] * 6)
    best = np.linalg.solve(p.A[0], p.b[0])
    shrink = np.eye(len(best)) - p.lr * p.A[0]
    done = np.concatenate([[0], p.steps[:, 0].cumsum()])
    expected = [best + np.linalg.matrix_power(shrink, k) @ (p.w0 - best) for k in done]
    trace = p.run("scaffold", **{"algo.c": factor})
    agree(trace.w, expected)
    agree(trace.server["c"], trace.clients["c"][0], 1e-12)


@pytest.mark.parametrize("rounds", [1, 2, 3, 4])
@pytest.mark.parametrize("keys", [{}, {"algo.c": 2.0}, {"algo.eta_g": 1.5, "weighting": "uniform"}], ids=str)
def test_scaffold_c_is_the_mean_of_all_client_controls(rounds: int, keys: dict[str, Any]) -> None:
    """By induction: c starts as the mean of zeros and moves by (1/N) sum_S (c_i+ - c_i), once per distinct device."""
    whole = make(64)
    p = replace(whole, steps=whole.steps[:rounds], cohorts=(whole.cohorts or [])[:rounds])
    trace = p.run("scaffold", **keys)
    agree(trace.server["c"], trace.clients["c"].mean(0), 1e-12)
    agree(trace.w, whole.run("scaffold", **keys).w[: rounds + 1], 1e-12)


@pytest.mark.parametrize("weighting", ["size", "uniform"])
def test_scaffold_starts_as_fedavg(weighting: str) -> None:
    """All controls are zero in round 0, whatever the factor."""
    p = make(65)
    ours, plain = (p.run(algo, weighting=weighting).w for algo in ("scaffold", "fedavg"))
    agree(ours[1], plain[1], 1e-12)
    assert (ours[2] - plain[2]).abs().max() > 1e-3


def test_scaffold_finds_the_optimum_where_fedavg_does_not() -> None:
    """At w* with sum_i g_i(w*) = 0, c_i = g_i(w*) and c = 0 nobody moves: a fixed point under any local steps."""
    p = full(make(66), 120)
    best = np.linalg.solve(p.A.sum(0), p.b.sum(0))
    agree(p.run("scaffold", weighting="uniform").w[-1], best, 1e-7)
    assert np.abs(p.run("fedavg", weighting="uniform").w[-1].numpy() - best).max() > 1e-2


@pytest.mark.parametrize("weighting", ["uniform", "size"])
@pytest.mark.parametrize("scale", [-0.1, 1.0, "eta_l"])
def test_fedlga_without_stragglers_is_fedavg(weighting: str, scale: float | str) -> None:
    p = replace(make(67), steps=np.full((5, 5), 3))
    ours = p.run("fedlga", weighting=weighting, **{"algo.scale": scale})
    agree(ours.w, p.run("fedavg", weighting=weighting).w, 1e-12)


def test_fedlga_with_scale_zero_is_fedavg() -> None:
    p = make(68)
    agree(p.run("fedlga", **{"algo.scale": 0.0}).w, p.run("fedavg").w, 1e-12)


def test_fedasync_with_alpha_zero_stays() -> None:
    q = make(69, rounds=7)
    agree(q.run("fedasync", **{"algo.alpha": 0.0}).w, np.tile(q.w0, (8, 1)), 1e-12)


@pytest.mark.parametrize("algo", ["fedavg", "fedprox", "fedlga"])
def test_one_full_batch_step_is_gradient_descent(algo: str) -> None:
    """One step each, everybody: w+ = w - lr (sum p_i A_i w - sum p_i b_i), p_i = n_i / n; a prox term is 0 at w_t."""
    p = full(make(70), 6, steps=1)
    share = p.samples / p.samples.sum()
    A, b = np.einsum("n,npq->pq", share, p.A), share @ p.b
    w = [p.w0]
    for _ in range(6):
        w.append(w[-1] - p.lr * (A @ w[-1] - b))
    agree(p.run(algo).w, w)


@pytest.mark.parametrize("algo", SYNC)
def test_without_cohorts_a_synchronous_method_takes_everybody(algo: str) -> None:
    p = full(make(71), 4)
    agree(p.run(algo).w, replace(p, cohorts=None).run(algo).w, 1e-12)


@pytest.mark.parametrize("algo", SYNC)
def test_synchronous_results_do_not_depend_on_seconds(algo: str) -> None:
    p = make(72)
    seconds = np.random.default_rng(72).uniform(0.1, 5.0, p.steps.shape)
    assert p.run(algo).w.equal(p.run(algo, seconds=seconds).w)


@pytest.mark.parametrize("algo", SYNC)
def test_the_order_of_a_cohort_does_not_matter(algo: str) -> None:
    p = make(73)
    q = replace(p, cohorts=[cohort[::-1] for cohort in p.cohorts or []])
    assert p.run(algo).w.equal(q.run(algo).w)


@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize("algo", [*SYNC, "fedasync"])
def test_identities_do_not_matter(algo: str, weighting: str) -> None:
    """New device j is old device order[j]; cohorts name the new ones. (Asynchronous: no two events at one instant.)"""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        p = make(74 + seed) if algo != "fedasync" else make(74 + seed, rounds=15)
        order = rng.permutation(p.clients)
        cohorts = p.cohorts and [[int(np.flatnonzero(order == i)[0]) for i in cohort] for cohort in p.cohorts]
        own = {"A": p.A[order], "b": p.b[order], "samples": p.samples[order], "steps": p.steps[:, order]}
        moved = replace(p, **own, cohorts=cohorts)
        seconds = rng.uniform(0.5, 5.0, p.clients)
        before = p.run(algo, weighting=weighting, seconds=seconds)
        after = moved.run(algo, weighting=weighting, seconds=seconds[order])
        agree(after.w, before.w, 1e-12)
        assert after.clients.keys() == before.clients.keys()
        for name, rows in before.clients.items():
            agree(after.clients[name], rows[order.tolist()], 1e-12)


@pytest.mark.parametrize("algo", [*SYNC, "fedasync"])
def test_only_the_proportions_of_the_samples_matter(algo: str) -> None:
    for seed in range(3):
        p = make(78 + seed) if algo != "fedasync" else make(78 + seed, rounds=15)
        for factor in (7, 1000):
            agree(replace(p, samples=p.samples * factor).run(algo).w, p.run(algo).w, 1e-12)


@pytest.mark.parametrize("algo", [*SYNC, "fedasync"])
def test_inputs_are_left_alone_and_runs_repeat(algo: str) -> None:
    p = make(81) if algo != "fedasync" else make(81, rounds=10)
    copies = [x.copy() for x in (p.A, p.b, p.w0, p.samples, p.steps)]
    assert p.run(algo).w.equal(p.run(algo).w)
    for before, after in zip(copies, (p.A, p.b, p.w0, p.samples, p.steps), strict=True):
        assert np.array_equal(before, after)

"""Where methods must coincide; what must not matter is in test_properties.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from .problem import Problem, agree, make

OPT = ["fedadam", "fedadagrad", "fedyogi"]


def full(p: Problem, rounds: int, steps: int | np.ndarray | None = None) -> Problem:
    """Everybody in every round."""
    shape = (rounds, p.clients)
    granted = np.random.default_rng(rounds).integers(1, 5, shape) if steps is None else np.broadcast_to(steps, shape)
    return replace(p, steps=granted, cohorts=[list(range(p.clients))] * rounds)


LR = make(60).lr
# what a method is given to be FedAvg, with any steps
PLAIN: list[tuple[str, dict[str, Any]]] = [
    ("fedprox", {"mu": 0.0}),
    ("fedsam", {"r": 0.0}),
    ("fedcm", {"a": 1.0}),
    ("mimelite", {"beta": 0.0}),
    ("fedlga", {"scale": 0.0}),
    ("fedagg", {"eta_min": LR, "eta_max": LR}),
    ("fedagg", {"eta_min": LR, "eta_max": LR, "feedback": False}),
    ("fedagg", {"mean_field": "fixed_point", "J": 1}),
]
EXACT = {"fedprox", "fedsam", "fedcm", "mimelite"}  # bit for bit
# with the same number of steps everywhere: all of FedNova's a_i are a, tau_eff = a; nobody is a straggler to FedLGA
EQUAL: list[tuple[str, dict[str, Any]]] = [("fednova", {}), *(("fedlga", {"scale": x}) for x in (-0.1, 1.0, "eta_l"))]
# with a buffer of everybody, however unequal their seconds: nothing is stale, and with D = P all of it is sent
WHOLE = {"K": 5, "P": 4, "D": 4, "rce": False}
WAITING: list[tuple[str, dict[str, Any]]] = [
    ("ce_afl", {"alpha": 1.0}),
    *(("fed2a", {**WHOLE, "tvw": tvw}) for tvw in ("exp", "inv", "log", "none")),
]


def own(fields: dict[str, Any]) -> dict[str, Any]:
    return {f"algo.{name}": value for name, value in fields.items()}


@pytest.mark.parametrize("more", [{}, {"momentum": 0.5, "weight_decay": 0.1}, {"weighting": "uniform"}], ids=str)
@pytest.mark.parametrize(("algo", "fields"), [*PLAIN, *EQUAL], ids=str)
def test_in_its_limit_a_method_is_fedavg(algo: str, fields: dict[str, Any], more: dict[str, Any]) -> None:
    for seed in (60, 90):
        p = make(seed) if (algo, fields) in PLAIN else replace(make(seed), steps=np.full((5, 5), 3))
        ours, plain = p.run(algo, **own(fields), **more).w, p.run("fedavg", **more).w
        agree(ours, plain, 1e-12)
        assert ours.equal(plain) or algo not in EXACT


@pytest.mark.parametrize(("algo", "fields"), WAITING, ids=str)
def test_waiting_for_everybody_a_method_is_fedavg(algo: str, fields: dict[str, Any]) -> None:
    q, seconds = make(226, rounds=12), np.array([0.7, 1.9, 1.1, 0.45, 8.0])
    agree(q.run(algo, seconds=seconds, deep=2, **own(fields)).w, full(q, 12, q.steps).run("fedavg").w, 1e-12)


@pytest.mark.parametrize("algo", sorted({algo for algo, _ in [*PLAIN, *EQUAL]}))
def test_outside_of_its_limit_it_is_not(algo: str) -> None:
    p = make(90)
    assert (p.run(algo).w - p.run("fedavg").w).abs().max() > 1e-4


@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize(
    ("algo", "fields"),
    [
        ("scaffold", {}),
        *(("fedagg", {"mean_field": "history", **more}) for more in ({}, {"update": "aggregated"}, {"eta_max": 0.01})),
    ],
    ids=str,
)
def test_what_a_method_has_yet_to_learn_makes_its_first_round_fedavgs(
    algo: str, fields: dict[str, Any], weighting: str
) -> None:
    p = make(65)
    ours, plain = (p.run(name, weighting=weighting, **keys).w for name, keys in ((algo, own(fields)), ("fedavg", {})))
    agree(ours[1], plain[1], 1e-12)
    assert (ours[2] - plain[2]).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("algo", "fields", "rounds", "control"), [("scaffold", {}, 120, "c"), ("feddyn", {"alpha": 1.5}, 50, "h")]
)
def test_with_controls_the_optimum_is_found_where_fedavg_does_not(
    algo: str, fields: dict[str, Any], rounds: int, control: str
) -> None:
    """At w* with sum_i g_i(w*) = 0, c_i = g_i(w*) and c = 0 nobody moves: a fixed point under any local steps."""
    p = full(make(66), rounds)
    best = np.linalg.solve(p.A.sum(0), p.b.sum(0))
    trace = p.run(algo, weighting="uniform", **own(fields))
    agree(trace.w[-1], best, 1e-7)
    agree(trace.clients[control], [p.gradient(i, best) for i in range(p.clients)], 1e-7)
    assert np.abs(p.run("fedavg", weighting="uniform").w[-1].numpy() - best).max() > 1e-2


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


def test_fedasync_with_alpha_zero_stays() -> None:
    q = make(69, rounds=7)
    agree(q.run("fedasync", **{"algo.alpha": 0.0}).w, np.tile(q.w0, (8, 1)), 1e-12)


@pytest.mark.parametrize("weighting", ["size", "uniform"])
def test_fednova_goes_down_the_true_gradient_however_unequal_the_steps(weighting: str) -> None:
    """lr -> 0: (w_1 - w_0)/lr -> -tau_eff sum p_i g_i(w_0), where FedAvg follows -sum p_i K_i g_i(w_0)."""
    p = make(91)
    share = p.weights((p.cohorts or [])[0], weighting)
    g = {i: p.gradient(i, p.w0) for i in share}
    tau = sum(q * p.steps[0, i] for i, q in share.items())
    for algo, slope in (
        ("fednova", -tau * sum(q * g[i] for i, q in share.items())),
        ("fedavg", -sum(q * p.steps[0, i] * g[i] for i, q in share.items())),
    ):
        w = p.run(algo, lr=1e-7, weighting=weighting).w
        agree((w[1] - w[0]) / 1e-7, slope, 1e-5)


@pytest.mark.parametrize("alpha", [1e-6, 0.01, 0.5, 4.0])
@pytest.mark.parametrize("cohort", [[0, 1, 2, 3, 4], [3, 1], [2], [4, 0, 1]])
def test_feddyn_after_its_first_round(alpha: float, cohort: list[int]) -> None:
    """h = -(alpha/N) sum_S delta, so w_1 = w_0 + mean_S delta + (1/N) sum_S delta = w_0 + (1 + |S|/N) mean_S delta for
    every alpha, delta being FedProx's with mu = alpha; as alpha -> 0, FedAvg's."""
    p = make(92)
    p = replace(p, cohorts=[cohort], steps=p.steps[:1])
    ours = p.run("feddyn", weighting="uniform", **{"algo.alpha": alpha}).w
    prox = p.run("fedprox", weighting="uniform", **{"algo.mu": alpha}).w
    agree(ours[1], p.w0 + (1 + len(cohort) / p.clients) * (prox[1].numpy() - p.w0))
    plain = p.run("fedavg", weighting="uniform").w
    agree(ours[1], p.w0 + (1 + len(cohort) / p.clients) * (plain[1].numpy() - p.w0), 10 * alpha)


@pytest.mark.parametrize("a", [0.1, 0.6, 1.0])
def test_fedcm_with_eta_g_equal_to_K_lr_is_fedcm_without(a: float) -> None:
    """K_i = K: -eta_g Delta_new = (eta_g / (K lr)) mean delta."""
    p = replace(make(95), steps=np.full((5, 5), 3))
    one, other = p.run("fedcm", **{"algo.a": a, "algo.eta_g": 3 * p.lr}), p.run("fedcm", **{"algo.a": a})
    agree(one.w, other.w, 1e-12)
    agree(one.server["Delta"], other.server["Delta"], 1e-12)


def test_fedcm_starts_as_fedavg_at_a_times_the_rate() -> None:
    p = make(95)
    agree(p.run("fedcm", **{"algo.a": 0.3}).w[1], p.run("fedavg", lr=0.3 * p.lr).w[1], 1e-12)


@pytest.mark.parametrize("algo", OPT)
def test_fedopt_with_a_large_tau_is_fedavg(algo: str) -> None:
    """v stays v_0 = tau^2 (1 + O(1/tau^2)), so eta_s d/(sqrt(v) + tau) -> d for eta_s = 2 tau, beta1 = 0. Adam forgets
    v_0: in round 1 it is b2 tau^2, and eta_s = (1 + sqrt(b2)) tau is needed."""
    p, tau = make(100), 1e4
    factor = 1 + 0.99**0.5 if algo == "fedadam" else 2.0
    ours = p.run(algo, **{"algo.tau": tau, "algo.eta_s": factor * tau, "algo.beta1": 0.0}).w
    rounds = 2 if algo == "fedadam" else p.rounds + 1
    agree(ours[:rounds], p.run("fedavg").w[:rounds], 1e-7)


@pytest.mark.parametrize("algo", OPT)
def test_fedopt_without_eta_s_stays(algo: str) -> None:
    """(As near as a positive rate comes to none.)"""
    p = make(101)
    agree(p.run(algo, **{"algo.eta_s": 1e-13}).w, np.tile(p.w0, (6, 1)), 1e-10)


@pytest.mark.parametrize("deep", [1, 3])
def test_fedbabu_without_ties_between_body_and_head_is_fedavg_on_the_body(deep: int) -> None:
    """A_bh = 0: the body does not see the head, so it moves as under FedAvg."""
    p = make(102)
    body = np.arange(len(p.w0)) < len(p.w0) - deep
    p = replace(p, A=np.where(body[:, None] == body[None, :], p.A, 0.0))
    ours, plain = p.run("fedbabu", deep=deep).w, p.run("fedavg", deep=deep).w
    agree(ours[:, :-deep], plain[:, :-deep], 1e-12)
    assert (plain[-1, -deep:] - plain[0, -deep:]).abs().min() > 1e-6


def test_fedagg_unclamped_and_aggregated_needs_no_feedback() -> None:
    """Then w_{l+1} = w_l - eta_l phi1_l is what the plan assumed, and the tail of an optimum is optimal: re-solving
    changes nothing. With a device's own gradients, or clamped, it does."""
    p = make(105)
    free = {"algo.eta_min": None, "algo.eta_max": None}

    def w(feedback: bool, **keys: Any) -> Any:
        return p.run("fedagg", **{"algo.feedback": feedback}, **keys).w

    exact = {**free, "algo.update": "aggregated"}
    agree(w(True, **exact), w(False, **exact), 1e-11)
    assert (w(True, **free) - w(False, **free)).abs().max() > 1e-3
    clamped = {"algo.eta_min": 0.05, "algo.eta_max": 0.1, "algo.update": "aggregated"}
    assert (w(True, **clamped) - w(False, **clamped)).abs().max() > 1e-5


@pytest.mark.parametrize("algo", ["fedavg", "fedprox", "fednova", "fedlga"])
def test_one_full_batch_step_is_gradient_descent(algo: str) -> None:
    """One step each, everybody: w+ = w - lr (sum p_i A_i w - sum p_i b_i), p_i = n_i / n; a prox term is 0 at w_t."""
    p = full(make(70), 6, steps=1)
    share = p.samples / p.samples.sum()
    A, b = np.einsum("n,npq->pq", share, p.A), share @ p.b
    w = [p.w0]
    for _ in range(6):
        w.append(w[-1] - p.lr * (A @ w[-1] - b))
    agree(p.run(algo).w, w)

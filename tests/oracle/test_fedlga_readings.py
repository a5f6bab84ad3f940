"""FedLGA's readings of Eqs. (4)-(6): whose gradient, which product of it, how often; with epochs of many steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from algorithms.fedlga import FedLGA, approximate

from .problem import Problem, agree, make

S = np.array([3, 1, 4, 2, 5])  # steps in an epoch of each device
E = 4


def walk(p: Problem, i: int, w: np.ndarray, epochs: int, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Where plain SGD leads device i, and the gradients of its steps."""
    found = []
    for _ in range(int(epochs * S[i])):
        found.append(p.A[i] @ w - p.b[i])
        w = w - rate * found[-1]
    return w, np.array(found)


def hessian(g: np.ndarray, product: str) -> np.ndarray:
    """[P, P], written out."""
    if product == "diagonal":
        return np.diag(g**2)
    return np.outer(g, g) / (g @ g if product == "normalised" else 1.0)


def derive(
    p: Problem,
    *,
    gradient: str = "update",
    product: str = "outer",
    times: str = "once",
    scale: float | str = -0.1,
    gamma: float = 0.0,
    weighting: str = "size",
) -> np.ndarray:
    w = [p.w0]
    for t, cohort in enumerate(p.cohorts or []):
        rate, share = p.lr * (1 - gamma) ** t, p.weights(cohort, weighting)
        sigma = {"eta_l": rate, "-eta_l": -rate}[scale] if isinstance(scale, str) else scale
        ends = {i: walk(p, i, w[t], p.steps[t, i], rate) for i in share}
        delta = {i: end - w[t] for i, (end, _) in ends.items()}
        done = [i for i in share if p.steps[t, i] == E]
        if done:
            w_hat = w[t] + sum(share[i] * delta[i] for i in done) / sum(share[i] for i in done)
            for i in share.keys() - set(done):
                missing = E - p.steps[t, i]
                gap, seen = w_hat - ends[i][0], ends[i][1]
                g = {"update": seen.mean(0), "last": seen[-1], "gap": gap / (-rate * S[i] * missing)}[gradient]
                often = {"once": 1, "missing": missing, "tau": missing + 1}[times]
                delta[i] = delta[i] + often * sigma * hessian(g, product) @ gap
        w.append(w[t] + sum(share[i] * delta[i] for i in share))
    return np.array(w)


def problem(seed: int) -> Problem:
    return replace(make(seed), lr=0.05)  # which suits epochs of up to five steps


def run(p: Problem, weighting: str = "size", **fields: Any) -> Any:
    return p.run("fedlga", epoch_steps=S, weighting=weighting, **{f"algo.{k}": value for k, value in fields.items()})


@pytest.mark.parametrize("gradient", ["update", "last", "gap"])
@pytest.mark.parametrize("product", ["outer", "diagonal", "normalised"])
@pytest.mark.parametrize("times", ["once", "missing", "tau"])
@pytest.mark.parametrize(
    ("scale", "weighting"), [(0.05, "size"), (-0.05, "uniform"), ("eta_l", "uniform"), ("-eta_l", "size")]
)
def test_every_reading_follows_its_formula(
    gradient: str, product: str, times: str, scale: float | str, weighting: str
) -> None:
    """K1: Delta_i += n scale G (w_hat - w_i), tau_i = E - E_i + 1; G the matrix g g', its diagonal, or g g'/|g|^2;
    g the mean of the gradients of its E_i S_i steps (update), that of the last step (last), or the constant gradient
    whose (E - E_i) S_i steps at eta_l lead from w_i to w_hat (gap, S000:121); n = 1, E - E_i or tau_i."""
    p = problem(330)
    reading = {"gradient": gradient, "product": product, "times": times, "scale": scale, "gamma": 0.1}
    w = derive(p, weighting=weighting, **reading)
    agree(run(p, weighting, **reading).w, w)
    assert np.abs(w - derive(p, weighting=weighting, scale=0.0, gamma=0.1)).max() > 1e-4


def test_all_readings_differ() -> None:
    p = problem(331)
    ends = [
        run(p, gradient=gradient, product=product, times=times, scale=scale).w[-1]
        for gradient in ("update", "last", "gap")
        for product in ("outer", "diagonal", "normalised")
        for times in ("once", "missing", "tau")
        for scale in (0.05, "-eta_l")
    ]
    assert min(float((a - b).abs().max()) for k, a in enumerate(ends) for b in ends[:k]) > 1e-6


def test_one_missing_epoch_counts_once() -> None:
    """tau_i = 2 at most: once and missing are the same, tau is twice that."""
    p = replace(problem(332), steps=np.array([[4, 3, 4, 3, 4]] * 5))
    once, missing, tau = (run(p, times=times, scale=-0.05).w for times in ("once", "missing", "tau"))
    assert (once == missing).all()
    agree(tau, run(p, scale=-0.1).w)


def test_the_normalised_gap_at_scale_one_is_the_mean_of_those_who_finished() -> None:
    """G gap = gap: Delta_i + w_hat - w_i = w_hat - w, the mean of K2; so w+ = w_hat."""
    p = problem(333)
    w = run(p, gradient="gap", product="normalised", scale=1.0).w
    for t, cohort in enumerate(p.cohorts or []):
        share = p.weights(cohort, "size")
        done = [i for i in share if p.steps[t, i] == E] or list(share)
        ends = sum(share[i] * walk(p, i, np.asarray(w[t]), p.steps[t, i], p.lr)[0] for i in done)
        agree(w[t + 1], ends / sum(share[i] for i in done))


def test_the_products_by_hand() -> None:
    """g = (3, -1), gap = (2, 5): g g' gap = g (6 - 5); diagonal: (9 * 2, 1 * 5); |g|^2 = 10. A g of 0 adds nothing."""
    delta, g, gap = (torch.tensor(x, dtype=torch.float64) for x in ([1, 2], [3, -1], [2, 5]))
    agree(approximate(delta, g, gap, 2.0), [7, 0], 1e-15)
    agree(approximate(delta, g, gap, 2.0, "diagonal"), [37, 12], 1e-15)
    agree(approximate(delta, g, gap, 2.0, "normalised"), [1.6, 1.8], 1e-15)
    for product in ("outer", "diagonal", "normalised"):
        agree(approximate(delta, 0 * g, gap, 2.0, product), [1, 2], 0)


@pytest.mark.parametrize("fields", [{"gradient": "x"}, {"product": "inner"}, {"times": "twice"}, {"scale": "eta_g"}])
def test_other_words_are_refused(fields: Any) -> None:
    with pytest.raises(ValueError, match=r"algo\."):
        FedLGA(**fields)

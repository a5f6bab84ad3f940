"""FedLGA (Li et al., IEEE T-Cyb 2023) on quadratics, in the readings of its specification."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from algorithms.fedlga import approximate

from .problem import Problem, agree, make


def derive(
    p: Problem,
    weighting: str = "size",
    *,
    E: int | None = None,
    eta_g: float = 1.0,
    scale: float | str = -0.1,
    gamma: float = 0.0,
    gradient: str = "update",
    **terms: float,
) -> np.ndarray:
    complete = int(p.steps.max()) if E is None else E
    w = [p.w0]
    for t, cohort in enumerate(p.cohorts or []):
        rate = p.lr * (1 - gamma) ** t
        sigma = {"eta_l": rate, "-eta_l": -rate}.get(scale, scale) if isinstance(scale, str) else scale
        share = p.weights(cohort, weighting)
        end = {i: p.end(i, w[t], p.steps[t, i], lr=rate, **terms) for i in share}
        tau = {i: complete - p.steps[t, i] + 1 for i in share}
        k2 = [i for i in share if tau[i] == 1]
        delta = {i: end[i] - w[t] for i in share}
        if k2:
            w_hat = w[t] + sum(share[i] * delta[i] for i in k2) / sum(share[i] for i in k2)
            for i in share.keys() - set(k2):
                if gradient == "update":
                    g = -delta[i] / (rate * p.steps[t, i])
                else:
                    g = p.gradient(i, p.end(i, w[t], p.steps[t, i] - 1, lr=rate, **terms))
                delta[i] = delta[i] + sigma * np.outer(g, g) @ (w_hat - end[i])
        w.append(w[t] + eta_g * sum(share[i] * delta[i] for i in share))
    return np.array(w)


def compare(p: Problem, weighting: str = "size", E: int | None = None, **fields: Any) -> np.ndarray:
    expected = derive(p, weighting, E=E, **fields)
    keys = {f"algo.{name}": value for name, value in fields.items()} | ({} if E is None else {"epochs": E})
    trace = p.run("fedlga", weighting=weighting, **keys)
    agree(trace.w, expected)
    agree(trace.server["w"], expected[-1])
    return expected


@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize("gradient", ["update", "last"])
@pytest.mark.parametrize("scale", [-0.1, -0.3, 1.0, "eta_l", "-eta_l"])
def test_every_reading_follows_its_formula(weighting: str, gradient: str, scale: float | str) -> None:
    """E = max steps, tau_i = E - E_i + 1, K2 = {tau_i = 1}, K1 the rest; p_i the run's weights (1/K under uniform).
    w_hat = w + sum_{K2} p_i Delta_i / sum_{K2} p_i                                        (Alg. 2, l. 8)
    K1: Delta_i += scale * g g' (w_hat - w_i), here with the P x P matrix g g' written out  (Eqs. 5, 6)
        update: g = -Delta_i / (E_i eta_l);  last: g = A_i w_{i,E_i - 1} - b_i
    w+ = w + eta_g sum p_i Delta_i                                                          (Eq. 7)
    Round 2 of the problem has K2 empty: Delta_i stays. Rounds 0, 1, 3 draw a straggler or a complete device twice.
    """
    p = make(30)
    k2 = [[i for i in set(cohort) if p.steps[t, i] == 4] for t, cohort in enumerate(p.cohorts or [])]
    assert [len(members) for members in k2] == [1, 1, 0, 1, 2]
    expected = compare(p, weighting, gradient=gradient, scale=scale)
    assert np.abs(expected - derive(p, weighting, scale=0.0)).max() > 1e-2


@pytest.mark.parametrize("seed", range(3))
def test_the_defaults_are_those_of_the_derivation(seed: int) -> None:
    """eta_g = 1, scale = -1, gamma = 0, gradient = last; near the optimum, where gradients are small enough for it."""
    p = make(31 + seed)
    p = replace(p, w0=0.1 * p.w0, b=0.1 * p.b)
    agree(p.run("fedlga").w, derive(p, scale=-1, gradient="last"))


@pytest.mark.parametrize("gradient", ["update", "last"])
@pytest.mark.parametrize("scale", [-0.1, "eta_l", "-eta_l"])
def test_gamma_and_eta_g(gradient: str, scale: float | str) -> None:
    """Remark 2: in round t = 0, 1, ... eta_l = lr (1 - gamma)^t, in the local steps, in g and in scale = +-eta_l."""
    p = make(35)
    fields = {"gamma": 0.2, "eta_g": 1.4, "gradient": gradient, "scale": scale}
    expected = compare(p, "uniform", **fields)
    assert np.abs(expected - derive(p, "uniform", **(fields | {"gamma": 0.0}))).max() > 1e-3


@pytest.mark.parametrize("gradient", ["update", "last"])
@pytest.mark.parametrize(("momentum", "decay"), [(0.5, 0.0), (0.3, 0.1)])
def test_momentum_and_decay_follow_the_derivation(gradient: str, momentum: float, decay: float) -> None:
    """update: g = -Delta_i / (E_i eta_l) whatever made Delta_i; last: the raw gradient, without momentum and decay."""
    p = make(36)
    expected = derive(p, gradient=gradient, momentum=momentum, decay=decay)
    trace = p.run("fedlga", momentum=momentum, weight_decay=decay, **{"algo.gradient": gradient, "algo.scale": -0.1})
    agree(trace.w, expected)


def test_E_is_the_key_epochs_not_the_most_anyone_did() -> None:
    """epochs = 6 with at most 4 steps: K2 is empty in every round, so w+ = w + eta_g sum p_i Delta_i."""
    p = make(37)
    expected = compare(p, "uniform", E=6, eta_g=1.2)
    plain = [p.w0]
    for t, cohort in enumerate(p.cohorts or []):
        share = p.weights(cohort, "uniform")
        step = sum(q * (p.end(i, plain[t], p.steps[t, i]) - plain[t]) for i, q in share.items())
        plain.append(plain[t] + 1.2 * step)
    np.testing.assert_allclose(expected, plain, atol=1e-12)


def test_E_is_the_maximum_over_all_rounds_and_clients() -> None:
    """The only device that ever does 5 is never drawn: E = 5 all the same and K2 is empty throughout."""
    p = make(38)
    steps = p.steps.copy()
    steps[2, 1] = 5
    assert 1 not in (p.cohorts or [])[2]
    q = replace(p, steps=steps)
    agree(q.run("fedlga").w, derive(q, E=5))
    agree(q.run("fedlga", epochs=5).w, q.run("fedavg").w, 1e-12)


@pytest.mark.parametrize("scale", [1.0, -0.1, 0.0])
def test_the_approximation_is_the_product_with_the_outer_matrix(scale: float) -> None:
    """delta + scale g <g, gap> is delta + scale (g g') gap; by hand: (1, 2) + s (3, -1) (3 * 2 - 1 * 5) = (1, 2) + s
    (3, -1)."""
    hand = approximate(*(torch.tensor(x, dtype=torch.float64) for x in ([1, 2], [3, -1], [2, 5])), scale)
    agree(hand, [1 + 3 * scale, 2 - scale], 1e-15)
    delta, g, gap = np.random.default_rng(39).normal(size=(3, 6))
    got = approximate(torch.from_numpy(delta), torch.from_numpy(g), torch.from_numpy(gap), scale)
    agree(got, delta + scale * np.outer(g, g) @ gap, 1e-12)

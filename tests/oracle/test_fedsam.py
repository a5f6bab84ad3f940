"""FedSAM (Qu et al., 2022) on quadratics."""

from __future__ import annotations

import numpy as np
import pytest

from .problem import Problem, agree, make


def derive(
    p: Problem, weighting: str = "size", r: float = 0.1, momentum: float = 0.0, decay: float = 0.0
) -> np.ndarray:
    w = [p.w0]
    for t, cohort in enumerate(p.cohorts or []):
        new = np.zeros_like(p.w0)
        for i, q in p.weights(cohort, weighting).items():
            x, m = w[t], np.zeros_like(p.w0)
            for _ in range(p.steps[t, i]):
                g = p.gradient(i, x)
                norm = np.sqrt(g @ g)
                ascent = r * g / norm if norm > 0 else np.zeros_like(g)
                m = momentum * m + g + p.A[i] @ ascent + decay * x
                x = x - p.lr * m
            new += q * x
        w.append(new)
    return np.array(w)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize("r", [0.02, 0.1, 0.5])
def test_plain_rounds_follow_the_derivation(seed: int, weighting: str, r: float) -> None:
    """Step from w along the gradient at w + r g/|g|, one norm over all coordinates: g(w + e) = g(w) + A_i e."""
    p = make(140 + seed)
    expected = derive(p, weighting, r)
    trace = p.run("fedsam", weighting=weighting, **{"algo.r": r})
    agree(trace.w, expected)
    agree(trace.server["w"], expected[-1])
    assert np.abs(expected - derive(p, weighting, 0.0)).max() > 1e-3


def test_the_defaults_are_those_of_the_derivation() -> None:
    """r = 0.1, weighting = size."""
    p = make(142)
    agree(p.run("fedsam").w, derive(p))


@pytest.mark.parametrize(("momentum", "decay"), [(0.5, 0.0), (0.0, 0.2), (0.4, 0.1)])
def test_momentum_and_decay_follow_the_derivation(momentum: float, decay: float) -> None:
    """m <- rho m + g(w + r g/|g|) + decay w: the direction of ascent has neither momentum nor decay in it."""
    p = make(143)
    expected = derive(p, r=0.3, momentum=momentum, decay=decay)
    agree(p.run("fedsam", momentum=momentum, weight_decay=decay, **{"algo.r": 0.3}).w, expected)


@pytest.mark.parametrize("deep", [1, 2])
def test_one_norm_over_all_layers(deep: int) -> None:
    """Cutting the vector into layers changes nothing."""
    p = make(144)
    agree(p.run("fedsam", deep=deep, **{"algo.r": 0.4}).w, derive(p, r=0.4))


def test_where_the_gradient_is_zero_nothing_moves() -> None:
    """w_0 is the optimum of devices 0 and 2, exactly: g = 0, no ascent, no step. (A_i = a I, b_i = a w_0 in binary.)"""
    w0 = np.array([1.5, -0.25, 2.0])
    A = np.array([2.0, 1.0, 0.5])[:, None, None] * np.eye(3)
    b = np.array([2 * w0, [1.0, 1.0, 1.0], 0.5 * w0])
    p = Problem(A, b, w0, np.array([4, 2, 1]), 0.25, np.full((3, 3), 3), [[0, 2, 2], [0], [0, 1]])
    trace = p.run("fedsam", **{"algo.r": 0.5})
    assert np.array_equal(trace.w[:3].numpy(), [w0] * 3)
    agree(trace.w, derive(p, r=0.5))


def test_numbers_worked_out_by_hand_come_out() -> None:
    """F = w^2/2 with r = 1/2, lr = 1/2: w = 2 -> 2 - (2 + 1/2)/2 = 3/4 -> 3/4 - (5/4)/2 = 1/8; next round
    1/8 - (1/8 + 1/2)/2 = -3/16 -> -3/16 + (3/16 + 1/2)/2 = 5/32."""
    p = Problem(np.ones((1, 1, 1)), np.zeros((1, 1)), np.array([2.0]), np.ones(1), 0.5, np.full((2, 1), 2), [[0], [0]])
    agree(p.run("fedsam", **{"algo.r": 0.5}).w, [[2.0], [0.125], [5 / 32]], 1e-14)

"""FedBABU (Oh et al., 2022) on quadratics: the last `deep` coordinates are the head."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .problem import Problem, agree, end, make


def derive(p: Problem, deep: int, weighting: str = "size", **terms: float) -> np.ndarray:
    body, head = slice(0, len(p.w0) - deep), slice(len(p.w0) - deep, None)
    w = [p.w0]
    for t, cohort in enumerate(p.cohorts or []):
        new = np.concatenate([np.zeros(len(p.w0) - deep), p.w0[head]])
        for i, q in p.weights(cohort, weighting).items():
            b = p.b[i, body] - p.A[i][body, head] @ p.w0[head]
            new[body] += q * end(p.A[i][body, body], b, w[t][body], p.steps[t, i], p.lr, **terms)
        w.append(new)
    return np.array(w)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize("deep", [1, 2, 3])
def test_plain_rounds_follow_the_derivation(seed: int, weighting: str, deep: int) -> None:
    """With the head h frozen the body x has the loss x'A_bb x/2 - (b_b - A_bh h)'x: FedAvg on that, and h beside it."""
    p = make(160 + seed)
    expected = derive(p, deep, weighting)
    trace = p.run("fedbabu", weighting=weighting, deep=deep)
    agree(trace.w, expected)
    agree(trace.server["w"], expected[-1])


@pytest.mark.parametrize("deep", [1, 2])
@pytest.mark.parametrize(("momentum", "decay"), [(0.5, 0.0), (0.0, 0.3), (0.4, 0.1)])
def test_momentum_and_decay_follow_the_derivation(momentum: float, decay: float, deep: int) -> None:
    p = make(162)
    expected = derive(p, deep, momentum=momentum, decay=decay)
    agree(p.run("fedbabu", momentum=momentum, weight_decay=decay, deep=deep).w, expected)


@pytest.mark.parametrize("keys", [{}, {"momentum": 0.9}, {"weight_decay": 0.5}, {"weighting": "uniform"}], ids=str)
@pytest.mark.parametrize("deep", [1, 2, 3])
def test_the_head_never_changes_bit_for_bit(deep: int, keys: dict[str, Any]) -> None:
    for seed in range(3):
        p = make(163 + seed)
        w = p.run("fedbabu", deep=deep, **keys).w.numpy()
        assert np.array_equal(w[:, -deep:], np.tile(p.w0[-deep:], (p.rounds + 1, 1)))
        assert (np.diff(w[:, :-deep], axis=0) != 0).all()


def test_without_a_body_it_is_refused() -> None:
    with pytest.raises(ValueError, match="body"):
        make(166).run("fedbabu", deep=4)

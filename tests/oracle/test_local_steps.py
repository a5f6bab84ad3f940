"""Adam (Kingma, Ba: ICLR 2015, Alg. 1), AdamW, cut gradients and a decaying rate on the devices, on quadratics.

A device begins every dispatch with m = v = 0.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from algorithms.base import Adam
from bench.prepare.registry import classes

from .problem import Problem, agree, make

ADAM = Adam(beta1=0.8, beta2=0.95, eps=1e-3)


def trained(p: Problem, i: int, start: np.ndarray, steps: int, prox: float = 0, decay: float = 0) -> np.ndarray:
    """m_t = (1 - b1) sum_s b1^(t-s) g_s, and v_t likewise of the squares: sums over all gradients so far, no recursion.
    The proximal term and the decay are part of the gradient, as of the loss."""
    w, seen = start, np.empty((0, len(start)))
    for t in range(1, steps + 1):
        seen = np.vstack([seen, p.gradient(i, w) + prox * (w - start) + decay * w])
        age = np.arange(t)[::-1, None]
        m, v = (((1 - b) * b**age * g).sum(0) / (1 - b**t) for b, g in ((ADAM.beta1, seen), (ADAM.beta2, seen**2)))
        w = w - p.lr * m / (np.sqrt(v) + ADAM.eps)
    return w


def averaged(p: Problem, weighting: str = "size", **terms: float) -> np.ndarray:
    w = [p.w0]
    for t, cohort in enumerate(p.cohorts or []):
        share = p.weights(cohort, weighting)
        w.append(sum(q * trained(p, i, w[t], int(p.steps[t, i]), **terms) for i, q in share.items()))
    return np.array(w)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weighting", ["size", "uniform"])
def test_fedavg_follows_the_derivation(seed: int, weighting: str) -> None:
    p = make(700 + seed)
    agree(p.run("fedavg", optimizer=ADAM, weighting=weighting).w, averaged(p, weighting))


def test_the_proximal_term_and_the_decay_are_part_of_the_gradient() -> None:
    p = make(710)
    found = p.run("fedprox", optimizer=ADAM, weight_decay=0.1, **{"algo.mu": 0.4})
    agree(found.w, averaged(p, prox=0.4, decay=0.1))


def test_steps_go_on_counting_through_the_epochs_of_a_dispatch() -> None:
    p = make(711)
    found = p.run("fedavg", optimizer=ADAM, epoch_steps=2, steps=2).w
    agree(found, averaged(Problem(p.A, p.b, p.w0, p.samples, p.lr, np.full_like(p.steps, 4), p.cohorts)))


def test_a_mask_keeps_what_it_hides_where_it_was() -> None:
    """FedBABU's head, the last coordinate, moves neither by a gradient nor by decay; the others see it as it is."""
    p = make(712)
    found = p.run("fedbabu", optimizer=ADAM, weight_decay=0.1, deep=1).w.numpy()
    assert (found[:, -1] == p.w0[-1]).all()
    assert (found[1:, :-1] != p.w0[:-1]).all()


def test_the_servers_adam_takes_the_mean_update_of_the_devices() -> None:
    """FedAdam's first round: m = 0.1 D, v = 0.99 tau^2 + 0.01 D^2, with D from devices that train by Adam."""
    p, tau = make(713), 0.001
    d = averaged(p)[1] - p.w0
    expected = p.w0 + 0.03 * 0.1 * d / (np.sqrt(0.99 * tau**2 + 0.01 * d**2) + tau)
    agree(p.run("fedadam", optimizer=ADAM).w[1], expected)


def test_adamw_decays_the_model_beside_the_step() -> None:
    """w <- w - lr (m / (sqrt v + eps) + decay w), where m and v know nothing of the decay."""
    p, decay = make(715), 0.3

    def end(i: int, start: np.ndarray, steps: int) -> np.ndarray:
        w, seen = start, np.empty((0, len(start)))
        for t in range(1, steps + 1):
            seen = np.vstack([seen, p.gradient(i, w)])
            age = np.arange(t)[::-1, None]
            m, v = (((1 - b) * b**age * g).sum(0) / (1 - b**t) for b, g in ((ADAM.beta1, seen), (ADAM.beta2, seen**2)))
            w = w - p.lr * (m / (np.sqrt(v) + ADAM.eps) + decay * w)
        return w

    expected = [p.w0]
    for t, cohort in enumerate(p.cohorts or []):
        share = p.weights(cohort, "size")
        expected.append(sum(q * end(i, expected[t], int(p.steps[t, i])) for i, q in share.items()))
    agree(p.run("fedavg", optimizer=replace(ADAM, decoupled=True), weight_decay=decay).w, np.array(expected))


def test_gradients_are_cut_before_momentum_and_decay() -> None:
    p, most = make(716), 0.8

    def end(i: int, start: np.ndarray, steps: int) -> np.ndarray:
        w, m = start, np.zeros_like(start)
        for _ in range(steps):
            g = p.gradient(i, w)
            m = 0.5 * m + g * min(1.0, most / np.linalg.norm(g)) + 0.1 * w
            w = w - p.lr * m
        return w

    expected = [p.w0]
    for t, cohort in enumerate(p.cohorts or []):
        share = p.weights(cohort, "size")
        expected.append(sum(q * end(i, expected[t], int(p.steps[t, i])) for i, q in share.items()))
    agree(p.run("fedavg", clip_norm=most, momentum=0.5, weight_decay=0.1).w, np.array(expected))


def test_a_rate_that_decays_is_that_of_the_version_downloaded() -> None:
    p = make(717)
    w = [p.w0]
    for t, cohort in enumerate(p.cohorts or []):
        share = p.weights(cohort, "size")
        w.append(sum(q * p.end(i, w[t], p.steps[t, i], lr=p.lr * 0.8**t) for i, q in share.items()))
    agree(p.run("fedavg", lr_decay=0.8).w, np.array(w))


def test_fedlgas_own_decay_is_the_same() -> None:
    p = make(718)
    agree(p.run("fedlga", lr_decay=0.8).w, p.run("fedlga", **{"algo.gamma": 0.2}).w, 1e-12)
    agree(p.run("fedlga", lr_decay=0.8, **{"algo.gamma": 0.5}).w, p.run("fedlga", **{"algo.gamma": 0.6}).w, 1e-12)


def test_methods_that_need_plain_sgd_are_refused_and_no_others() -> None:
    p = make(714)
    needs = {name for name, cls in classes("algo").items() if cls.plain_sgd}  # type: ignore[attr-defined]
    assert needs == {
        *("scaffold", "fednova", "feddyn", "fedcm", "mimelite", "fedagg", "fedlga", "fedlc", "sc_fedlc", "fedlc_t")
    }
    for name in needs:
        for keys in ({"optimizer": ADAM}, {"clip_norm": 1.0}):
            with pytest.raises(ValueError, match="needs plain SGD"):
                p.run(name, **keys)

"""FedAgg's adaptive rates (Yuan and Wang, arXiv 2303.15799, Theorem 1): `tracking` solves Eq. 13 exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from .problem import agree
from .test_fedagg import solve


def problems(seed: int, L: int):
    rng = np.random.default_rng(seed)
    return rng.normal(size=7), rng.normal(size=(L, 7)), rng.normal(size=(L + 1, 7))


def rates(w: np.ndarray, phi1: np.ndarray, phi2: np.ndarray, alpha: float) -> np.ndarray:
    from algorithms.ops import tracking

    got = tracking(torch.from_numpy(phi1), torch.from_numpy(phi2), alpha)(torch.from_numpy(w)).numpy()
    assert got.shape == (len(phi1),)
    return got


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("L", [1, 2, 3, 6])
def test_learning_rates_are_the_optimum(L: int, alpha: float) -> None:
    """By QR; by Eq. 15 (stationarity); and the cost rises by exactly alpha |s|^2 + (1-alpha) sum_l |sum_{k<l} s_k
    phi1_k|^2 when eta moves by s, whatever s: it is the minimum."""
    w, phi1, phi2 = problems(L, L)
    eta = rates(w, phi1, phi2, alpha)
    agree(eta, solve(w, phi1, phi2, alpha), 1e-11)
    for k in range(L):
        inner = (L - k) * (w - eta[:k] @ phi1[:k]) - phi2[k + 1 :].sum(0)
        inner = inner - sum((L - r) * eta[r] * phi1[r] for r in range(k, L))
        np.testing.assert_allclose(eta[k], (1 - alpha) / alpha * phi1[k] @ inner, atol=1e-11 / alpha)

    def cost(eta: np.ndarray) -> float:
        x = w - np.concatenate([np.zeros((1, 7)), (eta[:, None] * phi1).cumsum(0)])
        return alpha * (eta**2).sum() + (1 - alpha) * ((x - phi2) ** 2).sum()

    for s in np.random.default_rng(1).normal(size=(20, L)):
        rise = alpha * s @ s + (1 - alpha) * ((s[:, None] * phi1).cumsum(0) ** 2).sum()
        np.testing.assert_allclose(cost(eta + s) - cost(eta), rise, rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.05, 0.4])
def test_learning_rates_against_the_papers_closed_forms(alpha: float) -> None:
    """c = (1-alpha)/alpha.  L = 1 is Eq. 27: eta = c phi1'(w - phi2_1) / (1 + c |phi1|^2).  L = 2 is Eq. 28 with its
    misprints mended: eta_0 = c p'(2 w - phi2_1 - phi2_2 - c q q'(w - phi2_2)/(1 + c|q|^2)) / (1 + 2 c |p|^2 -
    c^2 (p'q)^2/(1 + c|q|^2)), p = phi1_0, q = phi1_1; then eta_1 is Eq. 27 from w - eta_0 p."""
    c = (1 - alpha) / alpha
    w, phi1, phi2 = problems(8, 1)
    agree(rates(w, phi1, phi2, alpha), [c * phi1[0] @ (w - phi2[1]) / (1 + c * phi1[0] @ phi1[0])], 1e-11)
    w, (p, q), phi2 = problems(9, 2)
    z4 = c * q @ q
    first = c * p @ (2 * w - phi2[1] - phi2[2] - c * q * (q @ (w - phi2[2])) / (1 + z4))
    first /= 1 + 2 * c * p @ p - (c * p @ q) ** 2 / (1 + z4)
    agree(rates(w, np.array([p, q]), phi2, alpha), [first, c * q @ (w - first * p - phi2[2]) / (1 + z4)], 1e-11)


def test_learning_rates_by_dynamic_programming() -> None:
    """The optimum's tail is the optimum of the tail, from where its head leads."""
    w, phi1, phi2 = problems(10, 5)
    eta = rates(w, phi1, phi2, 0.2)
    for k in range(1, 5):
        agree(rates(w - eta[:k] @ phi1[:k], phi1[k:], phi2[k:], 0.2), eta[k:], 1e-11)


def test_learning_rates_at_the_trap() -> None:
    """phi2_l = w: nothing to reach, eta = 0, the only fixed point of Alg. 1; phi1_l = 0: that rate is 0, the others
    as if the epoch only waited; and the wider the gap, the larger eta, in proportion."""
    w, phi1, phi2 = problems(11, 4)
    agree(rates(w, phi1, np.tile(w, (5, 1)), 0.1), np.zeros(4), 1e-12)
    phi1[2] = 0
    eta = rates(w, phi1, phi2, 0.1)
    assert eta[2] == 0
    agree(eta, solve(w, phi1, phi2, 0.1), 1e-11)
    agree(rates(w, phi1, w + 3 * (phi2 - w), 0.1), 3 * eta, 1e-11)

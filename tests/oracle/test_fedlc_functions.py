"""FedLC's LOCALCOL, Eqs. 40, 42 and Theorem 1 against plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from algorithms.localcol import clamped, demand_row, epsilon, learning_rate, xi

from .fedlc_replay import localcol
from .problem import agree


def draws(count: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        N = int(rng.integers(2, 21))
        yield rng, N, int(rng.integers(N)), rng.lognormal(0.0, rng.uniform(0.1, 2.0), N)


def test_demands_are_those_of_the_listing() -> None:
    """Against the loop above on random norms, budgets and loads."""
    sizes = set()
    for rng, N, i, norms in draws(400, 261):
        compute, load, link = int(rng.integers(1, 12)), rng.integers(0, 6, N), rng.integers(1, 8, N)
        S = localcol(i, norms, compute, load, link)
        got = demand_row(i, torch.from_numpy(norms), compute, torch.from_numpy(load), torch.from_numpy(link))
        assert tuple(got.shape) == (N,)
        assert set(np.flatnonzero(np.asarray(got))) == S
        sizes.add(len(S))
    assert sizes >= set(range(7)), "from nobody to many"


def test_demand_row_by_hand() -> None:
    """l = 1 for all: (m + 1)^2 > m (m + 1) for every m, so all in index order up to the budgets. A device with l_j = 0
    adds nothing, a tie, and is not taken; one with l_j far above the sum of the rest is taken only first."""

    def row(i: int, norms: list[float], compute: float, load: list[int], link: list[int]) -> list[int]:
        got = demand_row(i, torch.tensor(norms).double(), compute, torch.tensor(load), torch.tensor(link))
        return [int(x) for x in got]

    assert row(2, [1] * 5, 19, [0] * 5, [5] * 5) == [1, 1, 0, 1, 1]
    assert row(2, [1] * 5, 4, [0] * 5, [5] * 5) == [1, 1, 0, 1, 0]
    assert row(2, [1] * 5, 1, [0] * 5, [5] * 5) == [0] * 5
    assert row(0, [1] * 5, 3, [0, 5, 4, 5, 0], [5] * 5) == [0, 0, 1, 0, 1]
    assert row(0, [1] * 5, 9, [0, 1, 1, 1, 1], [5, 1, 2, 0, 9]) == [0, 0, 1, 0, 1]
    assert row(0, [1, 0, 1, 1, 1], 9, [0] * 5, [5] * 5) == [0, 0, 1, 1, 1]
    assert row(0, [1, 1, 9, 1, 1], 9, [0] * 5, [5] * 5) == [0, 1, 0, 1, 1]  # 11^2 = 121 < 2 * 83
    assert row(0, [1, 9, 1, 1, 1], 9, [0] * 5, [5] * 5) == [0, 1, 0, 0, 0]


def test_eq40s_k_would_choose_nobody() -> None:
    """(sum over k + 1 of l)^2 <= (k + 1) sum l^2 (Cauchy-Schwarz); for equal norms rounding decides."""
    for _, N, i, norms in draws(900, 262):
        assert not localcol(i, norms, 99, np.zeros(N), np.full(N, 99), listing=False)


def test_epsilon_xi_and_the_rate() -> None:
    """Eqs. 40, 42 with k = |R| + 1, Theorem 1; all norms equal: eps = xi = 1, eta = D / (d_i beta)."""
    for rng, N, i, norms in draws(100, 263):
        others = [j for j in range(N) if j != i]
        R = sorted(int(j) for j in rng.permutation(others)[: rng.integers(0, N)])
        group = norms[[i, *R]]
        eps, x = N * group.sum() / len(group) / norms.sum(), N * (group**2).sum() / len(group) / (norms**2).sum()
        for form in (R, torch.tensor([j in R for j in range(N)])):  # a list, or a row of M
            agree(np.float64(epsilon(i, form, torch.from_numpy(norms))), eps, 1e-12)
            agree(np.float64(xi(i, form, torch.from_numpy(norms))), x, 1e-12)
        beta, d, D = rng.uniform(0.1, 5.0), float(rng.integers(50, 60)), 600.0
        terms = np.array([eps, x, beta, d, D])
        for eta in (learning_rate(*terms), learning_rate(*torch.from_numpy(terms))):
            assert float(eta) == pytest.approx(eps * D / (d * beta * x), rel=1e-14)
    agree(np.float64(epsilon(1, [0, 2], torch.ones(7).double())), 1.0, 1e-15)
    agree(np.float64(xi(1, [0, 2], torch.ones(7).double())), 1.0, 1e-15)
    agree(np.float64(epsilon(0, [2], torch.tensor([1.0, 2.0, 3.0]).double())), 3 * 4 / (2 * 6), 1e-15)
    agree(np.float64(xi(0, [2], torch.tensor([1.0, 2.0, 3.0]).double())), 3 * 10 / (2 * 14), 1e-15)


def test_a_rate_is_clamped_where_there_is_a_bound() -> None:
    """[0.1, 10] times 0.5; None: no bound. beta = 0 or no gradient at all (x/0, 0/0): the upper bound, else the run's
    rate, for Theorem 1 says nothing then."""
    inf, nan = float("inf"), float("nan")
    for eta, low, high, expected, beyond in [
        (2.0, 0.1, 10.0, 2.0, [0, 0]),
        (0.01, 0.1, 10.0, 0.05, [1, 0]),
        (7.0, 0.1, 10.0, 5.0, [0, 1]),
        (inf, 0.1, 10.0, 5.0, [0, 1]),
        (nan, None, 10.0, 5.0, [0, 1]),
        (0.01, None, 10.0, 0.01, [0, 0]),
        (7e9, 0.1, None, 7e9, [0, 0]),
        (inf, 0.1, None, 0.5, [0, 0]),
        (nan, None, None, 0.5, [0, 0]),
    ]:
        got, beside = clamped(torch.tensor(eta).double(), low, high, 0.5)
        assert (float(got), beside.tolist()) == (pytest.approx(expected, rel=1e-7), beyond)

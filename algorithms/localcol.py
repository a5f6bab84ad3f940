"""FedLC's formulas (fedlc.py has the method): whose gradients a device asks for, and the rate that follows."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def epsilon(i: int, R: Tensor | Iterable[int], norms: Tensor) -> Tensor:
    """Eq. (40); R: the devices whose gradients i gets, as indices or as a row [N] of booleans."""
    chosen = R if isinstance(R, Tensor) else torch.tensor(list(R), device=norms.device)
    l_R = torch.cat([norms[i : i + 1], norms[chosen if chosen.dtype == torch.bool else chosen.long()]])
    return len(norms) * l_R.sum() / (len(l_R) * norms.sum())


def xi(i: int, R: Tensor | Iterable[int], norms: Tensor) -> Tensor:
    """Eq. (42): Eq. (40) of the squares."""
    return epsilon(i, R, norms**2)


def learning_rate(eps: Tensor, xi: Tensor, beta: Tensor, d_i: Tensor, D: Tensor) -> Tensor:
    """Theorem 1's rate, unclamped."""
    return eps * D / (d_i * beta * xi)


def demand_row(
    i: int, norms: Tensor, compute_budget: float, link_load: Tensor, link_budget: Tensor, localcol_k: str = "listing"
) -> Tensor:
    """LOCALCOL (Alg. 1, l. 24-37): [N] bool, the devices whose gradients i asks for.

    The test of l. 30, eps^2/xi of {i} + S + {j} against that of {i}, is (sum l)^2 / (k sum l^2) > 1 with the sums over
    {i} + S + {j}, since all other factors are the same on both sides. `listing`: k counts {i} + S, because it grows
    only when j has been taken. `eq40`: k counts j too, and by Cauchy-Schwarz nobody is ever taken.
    """
    l, load, budget = norms.tolist(), link_load.tolist(), link_budget.tolist()  # noqa: E741
    S, k, total, squares = torch.zeros_like(norms, dtype=torch.bool), 1, l[i], l[i] ** 2
    for j in range(len(l)):
        if j == i or k >= compute_budget or load[j] >= budget[j]:
            continue
        k_hat = k if localcol_k == "listing" else k + 1
        # a tie, such as equal norms make under eq40, must not be decided by rounding
        if (total + l[j]) ** 2 > k_hat * (squares + l[j] ** 2) * (1 + 1e-12):
            S[j] = True
            k, total, squares = k + 1, total + l[j], squares + l[j] ** 2
    return S


def norm(rows: Tensor) -> Tensor:
    """[K, P] -> [K], row by row: a device's number must not depend on who is trained beside it."""
    return torch.stack([torch.linalg.vector_norm(row) for row in rows])

"""FedLC's formulas (fedlc.py has the method): whose gradients a device asks for, and the rate that follows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from algorithms.base import State


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


def theorem1(i: int, R: Tensor, norms: Tensor, beta: Tensor, samples: Tensor) -> Tensor:
    """The rate of device i that gets the gradients of R, a row [N] of booleans; beta, samples: [N]."""
    d, mean = samples.double(), beta.double().mean()  # Eq. (43)
    return learning_rate(epsilon(i, R, norms), xi(i, R, norms), mean, d[i], d.sum())


def clamped(eta: Tensor, low: float | None, high: float | None, lr: float) -> tuple[Tensor, Tensor]:
    """Between low and high times lr, and whether it was [below, above]. None: no bound; a rate that is 0/0 or without
    bound is the upper one, lr if there is none."""
    least, most = (low or 0.0) * lr, math.inf if high is None else high * lr
    if high is None and not bool(eta.isfinite()):
        eta = torch.full_like(eta, lr)
    eta = eta.nan_to_num(math.inf)
    return eta.clamp(least, most), torch.stack([eta < least, eta > most])


def demand_row(
    i: int,
    norms: Tensor,
    compute_budget: float,
    link_load: Tensor,
    link_budget: Tensor,
    localcol_k: str = "listing",
    order: Sequence[int] | None = None,
) -> Tensor:
    """LOCALCOL (Alg. 1, l. 24-37): [N] bool, the devices whose gradients i asks for.

    The test of l. 30, eps^2/xi of {i} + S + {j} against that of {i}, is (sum l)^2 / (k sum l^2) > 1 with the sums over
    {i} + S + {j}, since all other factors are the same on both sides. `listing`: k counts {i} + S, because it grows
    only when j has been taken. `eq40`: k counts j too, and by Cauchy-Schwarz nobody is ever taken. `order`: of the
    devices in the loop of l. 27; None: by index, as there.
    """
    l, load, budget = norms.tolist(), link_load.tolist(), link_budget.tolist()  # noqa: E741
    S, k, total, squares = torch.zeros_like(norms, dtype=torch.bool), 1, l[i], l[i] ** 2
    for j in range(len(l)) if order is None else order:
        if j == i or k >= compute_budget or load[j] >= budget[j]:
            continue
        k_hat = k if localcol_k == "listing" else k + 1
        # a tie, such as equal norms make under eq40, must not be decided by rounding
        if (total + l[j]) ** 2 > k_hat * (squares + l[j] ** 2) * (1 + 1e-12):
            S[j] = True
            k, total, squares = k + 1, total + l[j], squares + l[j] ** 2
    return S


def ask(
    i: int,
    M: Tensor,
    norms: Tensor,
    compute_budget: float,
    link_budget: float,
    localcol_k: str,
    localcol_order: str,
    gamma: Callable[[int, int], float],
) -> Tensor:
    """Row i of M anew; what it held does not count as load. `links`: devices with gamma_ij > 1, which Sec. 5.1 would
    have collaborate, are asked before the others."""
    load, budget, order = M.sum(0) - M[i].long(), torch.full_like(norms, link_budget), range(len(norms))
    by_link = sorted(order, key=lambda j: gamma(i, j) <= 1) if localcol_order == "links" else order
    return demand_row(i, norms, compute_budget, load, budget, localcol_k, by_link)


def measured(g: Tensor, loss: Tensor, received: Tensor, before: State) -> tuple[State, State]:
    """What devices tell the server from their second dispatch on (Alg. 2, l. 17-21; -1: nothing), and remember."""
    moved = norm(received - before["model"])
    beta = torch.where(moved > 0, (loss - before["loss"]).abs() / moved, -1.0)
    extra = {name: torch.where(before["t"] >= 1, value, -1.0) for name, value in (("l", norm(g)), ("beta", beta))}
    return extra, {"model": received, "loss": loss, "t": before["t"] + 1}


def norm(rows: Tensor) -> Tensor:
    """[K, P] -> [K], row by row: a device's number must not depend on who is trained beside it."""
    return torch.stack([torch.linalg.vector_norm(row) for row in rows])

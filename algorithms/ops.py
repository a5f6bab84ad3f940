"""Small formulas that several methods share."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from algorithms.base import Fed
from algorithms.views import Trace


def staleness_decay(staleness: Tensor, kind: str, p: float, b: float) -> Tensor:
    """FedAsync's s(d): const 1; poly (d + 1)^-p; hinge 1 up to b, then 1 / (p (d - b) + 1)."""
    if kind == "const":
        return torch.ones_like(staleness)
    if kind == "poly":
        return (staleness + 1) ** -p
    return torch.where(staleness <= b, torch.ones_like(staleness), 1 / (p * (staleness - b).clamp(min=0) + 1))


def body(fed: Fed) -> Tensor:
    """[P] bool: everything but the head."""
    return fed.layout.expand(~fed.layout.head)


def tracking(phi1: Tensor, phi2: Tensor, alpha: float) -> Callable[[Tensor], Tensor]:
    """phi1 [L, P], phi2 [L + 1, P] -> a function from w_0 [P] to the eta [L] that minimise
    sum_l alpha eta_l^2 + (1 - alpha) |w_l - phi2_l|^2 under w_{l+1} = w_l - eta_l phi1_l.

    The conditions for a minimum are linear, A eta = b. What does not depend on w is worked out once, and in double
    precision: the phi1 of successive epochs are nearly parallel, so that A is ill-conditioned.
    """
    phi1, phi2 = phi1.double(), phi2.double()
    left = phi1.new_tensor(range(len(phi1), 0, -1))  # L - q
    offset = (phi1 * phi2[1:].flip(0).cumsum(0).flip(0)).sum(1)  # <phi1_q, sum_{k > q} phi2_k>
    a = (1 - alpha) * torch.minimum(left[:, None], left) * (phi1 @ phi1.T)
    a.diagonal().add_(alpha)

    def rates(w: Tensor) -> Tensor:
        b = (1 - alpha) * (left * (phi1 @ w.double()) - offset)
        eta: Tensor = torch.linalg.solve_ex(a, b)[0]
        return eta.to(w.dtype)

    return rates


def mean_path(phi1: Tensor, phi2: Tensor, trace: Trace) -> tuple[Tensor, Tensor]:
    """The traced means of gradients [L, P] and models [L + 1, P]; phi1 and phi2, moved to the same start, where no
    device got that far."""
    there = trace.reached[:, None] > 0
    old = phi2 - phi2[0] + trace.w[0]
    return torch.where(there[1:], trace.gradient, phi1), torch.where(there, trace.w, old)


def path_change(new: Tensor, old: Tensor) -> Tensor:
    """[L, P]: the sum over l of |new_l - old_l|."""
    change: Tensor = torch.linalg.vector_norm(new - old, dim=1).sum()
    return change


def epoch_means(values: Tensor, epochs: Tensor) -> Tensor:
    """[K, L] -> [L]: means over the devices whose epochs [K] reached so far; 0 where none did."""
    there = epochs[:, None] > torch.arange(values.shape[1], device=values.device)
    return (values * there).sum(0) / there.sum(0).clamp(min=1)


def one_of(algo: object, **allowed: tuple[str, ...]) -> None:
    """Refuses a field that has none of the values it may have."""
    for name, values in allowed.items():
        if (value := getattr(algo, name)) not in values:
            raise ValueError(f"algo.{name} is {', '.join(values[:-1])} or {values[-1]}, not {value!r}")


def in_order(algo: object, low: str, high: str) -> None:
    """Refuses a bound of 0, and a lower one above its upper one; None: no bound."""
    least, most = getattr(algo, low), getattr(algo, high)
    if 0 in (least, most) or (least is not None and most is not None and least > most):
        raise ValueError(f"algo.{low}={least} is above algo.{high}={most}, or one of them is 0")

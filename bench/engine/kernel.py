"""The one rule by which anything is trained in this repository.

m <- momentum m + g(w + sam g/|g|) + decay w;   w <- w - lr mask (scale m + prox (w - received) + drift)

Vectors are lists of tensors: an engine passes its parameters as they lie, or one flat vector as a list of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from algorithms.base import LocalRule

Vector = list[Tensor]
Cut = Callable[[Tensor], Vector]  # [P] -> the engine's list of views


@dataclass(frozen=True)
class Terms:
    """One device's rule; a term that is exactly zero is absent."""

    lr: float
    scale: float
    prox: float
    drift: Vector | None
    mask: Vector | None
    sam: float


def terms(rule: LocalRule, k: int, lr: float, dtype: torch.dtype, cut: Cut) -> Terms:
    drift = None if rule.drift is None or not rule.drift[k].any() else cut(rule.drift[k])
    mask = None if rule.mask is None or bool(rule.mask.all()) else cut(rule.mask.to(dtype))
    return Terms(
        lr=lr if rule.lr is None else float(rule.lr[k]),
        scale=number(rule.scale, k),
        prox=number(rule.prox, k),
        drift=drift,
        mask=mask,
        sam=rule.sam,
    )


def number(value: float | Tensor, k: int) -> float:
    return float(value[k]) if isinstance(value, Tensor) else float(value)


def climb(w: Vector, g: Vector, sam: float) -> None:
    """w <- w + sam g/|g| with the norm over all parameters; a zero gradient does not move."""
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(part) for part in g]))
    torch._foreach_add_(w, torch._foreach_mul(g, torch.where(norm > 0, sam / norm, torch.zeros_like(norm))))


def step(w: Vector, g: Vector, m: Vector | None, received: Vector, t: Terms, momentum: float, decay: float) -> None:
    """One step in place; g is used up. m is the momentum buffer, None without momentum."""
    if decay:
        torch._foreach_add_(g, w, alpha=decay)
    if m is not None:
        torch._foreach_mul_(m, momentum)
        torch._foreach_add_(m, g)
        torch._foreach_copy_(g, m)
    if t.scale != 1:
        torch._foreach_mul_(g, t.scale)
    if t.prox:
        torch._foreach_add_(g, torch._foreach_sub(w, received), alpha=t.prox)
    if t.drift is not None:
        torch._foreach_add_(g, t.drift)
    if t.mask is not None:
        torch._foreach_mul_(g, t.mask)
    torch._foreach_add_(w, g, alpha=-t.lr)


class EffectiveSteps:
    """FedNova's |a|_1 of each device, `total`, in closed recursion: m <- momentum m + 1, a <- (1 - lr prox) a + m."""

    def __init__(self, devices: int, momentum: float) -> None:
        self.momentum, self.total, self._m = momentum, np.zeros(devices), np.zeros(devices)

    def add(self, devices: Sequence[int], steps: np.ndarray, shrink: np.ndarray) -> None:
        """`shrink` is lr prox."""
        if not self.momentum and not shrink.any():
            self.total[devices] += steps
            return
        total, m = self.total[devices], self._m[devices]
        for step in range(int(steps.max())):
            takes = step < steps
            m[takes] = self.momentum * m[takes] + 1
            total[takes] = (1 - shrink[takes]) * total[takes] + m[takes]
        self.total[devices], self._m[devices] = total, m

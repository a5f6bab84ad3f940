"""The one rule by which anything is trained in this repository.

m <- momentum m + g(w + sam g/|g|) + decay w;   w <- w - lr mask (scale m + prox (w - received) + drift)

With an optimiser the bracket is what it takes for the gradient, and its step along it the bracket's place. g is cut to
the run's norm beforehand, where there is one.

Vectors are lists of tensors: an engine passes its parameters as they lie, or one flat vector as a list of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from algorithms.base import Adam, LocalRule

Vector = list[Tensor]
Cut = Callable[[Tensor], Vector]  # [P] -> the engine's list of views


@dataclass(frozen=True)
class Terms:
    """The rule of one device, whose vectors are [P]; or of n, whose vectors are [n, P] and coefficients [n, 1]. A term
    that is zero is absent."""

    lr: float | Tensor
    scale: float | Tensor
    prox: float | Tensor
    drift: Vector | None
    mask: Vector | None
    sam: float


def terms(rule: LocalRule, k: int, lr: float, dtype: torch.dtype, cut: Cut) -> Terms:
    """Of the device in row k."""
    return Terms(
        lr=lr if rule.lr is None else float(rule.lr[k]),
        scale=_number(rule.scale, k),
        prox=_number(rule.prox, k),
        drift=None if rule.drift is None or not rule.drift[k].any() else cut(rule.drift[k]),
        mask=None if rule.mask is None or bool(rule.mask.all()) else cut(rule.mask.to(dtype)),
        sam=rule.sam,
    )


def row_terms(rule: LocalRule, rows: Sequence[int], lr: float, like: Tensor) -> Terms:
    """Of the devices in these rows. Which terms there are depends on the rule alone, not on the devices."""
    index = torch.tensor(rows, device=like.device)

    def column(value: float | Tensor) -> Tensor:
        if isinstance(value, Tensor):
            return value.to(like.dtype).index_select(0, index)[:, None]
        return like.new_full((len(rows), 1), value)

    return Terms(
        lr=column(lr if rule.lr is None else rule.lr),
        scale=1.0 if _is(rule.scale, 1) else column(rule.scale),
        prox=0.0 if _is(rule.prox, 0) else column(rule.prox),
        drift=None if rule.drift is None else [rule.drift.index_select(0, index)],
        mask=None if rule.mask is None else [rule.mask.to(like.dtype)],
        sam=rule.sam,
    )


def _number(value: float | Tensor, k: int) -> float:
    return float(value[k]) if isinstance(value, Tensor) else float(value)


def _is(coefficient: float | Tensor, number: float) -> bool:
    return not isinstance(coefficient, Tensor) and coefficient == number


def climb(w: Vector, g: Vector, sam: float) -> None:
    """w <- w + sam g/|g| with the norm over all parameters; a zero gradient does not move."""
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(part) for part in g]))
    torch._foreach_add_(w, torch._foreach_mul(g, torch.where(norm > 0, sam / norm, torch.zeros_like(norm))))


def climbed_rows(w: Tensor, g: Tensor, sam: float) -> Tensor:
    """w + sam g/|g| of every row [n, P]; a zero gradient does not move."""
    norm = torch.linalg.vector_norm(g, dim=1, keepdim=True)
    return torch.addcmul(w, g, torch.where(norm > 0, sam / norm, torch.zeros_like(norm)))


def add_up(sums: Mapping[str, Vector], g: Vector) -> None:
    """Gradients as a method's `requires` names them: the last one, or the sum of all."""
    for name, total in sums.items():
        if name == "last_gradient":
            torch._foreach_copy_(total, g)
        else:
            torch._foreach_add_(total, g)


@dataclass
class Moments:
    """What Adam knows of one device, or of n in rows; a device begins with zeros whenever it begins to train."""

    adam: Adam
    m: Vector
    v: Vector
    taken: int | Tensor  # steps so far; of n devices [n, 1], float64

    def direct(self, g: Vector) -> None:
        """Writes the step, without its rate, over the gradient."""
        self.taken = self.taken + 1
        beta1, beta2 = self.adam.beta1, self.adam.beta2
        known1, known2 = self._known(beta1), self._known(beta2) ** 0.5
        for part, m, v in zip(g, self.m, self.v, strict=True):
            m.mul_(beta1).add_(part, alpha=1 - beta1)
            v.mul_(beta2).addcmul_(part, part, value=1 - beta2)
            torch.div(m, v.sqrt().div_(known2).add_(self.adam.eps).mul_(known1), out=part)

    def _known(self, beta: float) -> float | Tensor:
        """1 - beta^t, the share of a mean that is not its zero start: in double precision, as 1 - 0.999 needs it."""
        share: float | Tensor = 1 - beta**self.taken
        return share.to(self.m[0].dtype) if isinstance(share, Tensor) else share


def step(
    w: Vector,
    g: Vector,
    m: Vector | None,
    received: Vector,
    t: Terms,
    momentum: float,
    decay: float,
    moments: Moments | None = None,
    clip: float | None = None,
) -> None:
    """One step in place; g is used up. m is the momentum buffer, None without momentum."""
    decoupled = moments is not None and moments.adam.decoupled
    if clip is not None:
        _cut(g, clip, in_rows=isinstance(t.lr, Tensor))
    if decay and not decoupled:
        torch._foreach_add_(g, w, alpha=decay)
    if m is not None:
        torch._foreach_mul_(m, momentum)
        torch._foreach_add_(m, g)
        torch._foreach_copy_(g, m)
    if not _is(t.scale, 1):
        for part in g:
            part.mul_(t.scale)
    if not _is(t.prox, 0):
        _add(g, torch._foreach_sub(w, received), t.prox)
    if t.drift is not None:
        torch._foreach_add_(g, t.drift)
    if moments is not None:
        moments.direct(g)
    if decay and decoupled:
        torch._foreach_add_(g, w, alpha=decay)
    if t.mask is not None:
        torch._foreach_mul_(g, t.mask)
    _add(w, g, t.lr, sign=-1)


def _cut(g: Vector, most: float, in_rows: bool) -> None:
    """g <- g min(1, most / |g|), of all that a device has."""
    if in_rows:
        norm = torch.linalg.vector_norm(g[0], dim=1, keepdim=True)
    else:
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(part) for part in g]))
    factor = (most / norm).clamp(max=1)
    for part in g:
        part.mul_(factor)


def _add(to: Vector, vector: list[Tensor] | tuple[Tensor, ...], coefficient: float | Tensor, sign: int = 1) -> None:
    """to <- to + sign coefficient vector"""
    if isinstance(coefficient, Tensor):
        for part, value in zip(to, vector, strict=True):
            part.addcmul_(value, coefficient, value=sign)
    else:
        torch._foreach_add_(to, vector, alpha=sign * coefficient)


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

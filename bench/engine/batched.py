"""The rule of kernel.py for many devices at once: vectors are [n, P], a row each, and so are the coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from algorithms.base import LocalRule


@dataclass(frozen=True)
class RowTerms:
    """Coefficients are [n, 1]; a term that is zero for every device is absent."""

    lr: Tensor
    scale: Tensor | None
    prox: Tensor | None
    drift: Tensor | None
    mask: Tensor | None
    sam: float


def terms(rule: LocalRule, rows: Sequence[int], lr: float, like: Tensor) -> RowTerms:
    """The rule of the devices in these rows of the batch."""
    index = torch.tensor(rows, device=like.device)

    def column(value: float | Tensor) -> Tensor:
        if isinstance(value, Tensor):
            return value.to(like.dtype).index_select(0, index)[:, None]
        return like.new_full((len(rows), 1), value)

    def unless(neutral: float, value: float | Tensor) -> Tensor | None:
        return None if not isinstance(value, Tensor) and value == neutral else column(value)

    return RowTerms(
        lr=column(lr if rule.lr is None else rule.lr),
        scale=unless(1.0, rule.scale),
        prox=unless(0.0, rule.prox),
        drift=None if rule.drift is None else rule.drift.index_select(0, index),
        mask=None if rule.mask is None else rule.mask.to(like.dtype),
        sam=rule.sam,
    )


def climbed(w: Tensor, g: Tensor, sam: float) -> Tensor:
    """w + sam g/|g| of every row; a zero gradient does not move."""
    norm = torch.linalg.vector_norm(g, dim=1, keepdim=True)
    return torch.addcmul(w, g, torch.where(norm > 0, sam / norm, torch.zeros_like(norm)))


def step(w: Tensor, g: Tensor, m: Tensor | None, received: Tensor, t: RowTerms, momentum: float, decay: float) -> None:
    """One step of every row in place; g is used up. m is None without momentum."""
    if decay:
        g.add_(w, alpha=decay)
    if m is not None:
        g = m.mul_(momentum).add_(g).clone()
    if t.scale is not None:
        g.mul_(t.scale)
    if t.prox is not None:
        g.addcmul_(w - received, t.prox)
    if t.drift is not None:
        g.add_(t.drift)
    if t.mask is not None:
        g.mul_(t.mask)
    w.addcmul_(g, t.lr, value=-1)

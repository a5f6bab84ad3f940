"""Small formulas that several methods share."""

from __future__ import annotations

import torch
from torch import Tensor


def staleness_decay(staleness: Tensor, kind: str, p: float, b: float) -> Tensor:
    """FedAsync's s(d): const 1; poly (d + 1)^-p; hinge 1 up to b, then 1 / (p (d - b) + 1)."""
    if kind == "const":
        return torch.ones_like(staleness)
    if kind == "poly":
        return (staleness + 1) ** -p
    return torch.where(staleness <= b, torch.ones_like(staleness), 1 / (p * (staleness - b).clamp(min=0) + 1))

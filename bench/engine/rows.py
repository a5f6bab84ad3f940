"""One step of the one rule for stacked devices, in place."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from bench.engine.affine import AffineRule
from bench.engine.kernel import Vector, add_up
from bench.engine.stack import Linear, Stack


class DeviceRows:
    """What n devices work with, a row each: flat vectors, and the same ones cut into parameters."""

    def __init__(self, linears: Sequence[Linear], flat: dict[str, Tensor], stack: Stack) -> None:
        self.flat, self.stack = flat, stack
        self.cut = {name: [linear.cut(value) for linear in linears] for name, value in flat.items()}
        self.parts = {
            name: [part for pair in cut for part in pair if part is not None] for name, cut in self.cut.items()
        }

    def gradient(self, name: str, y: Tensor, weight: Tensor) -> tuple[Tensor, Vector]:
        """Losses [n, samples] and the weighted gradient at the models of this name."""
        losses = self.stack.gradient(self.cut[name], y, weight)
        return losses, [part for layer in self.stack.layers for part in layer.gradient]


def take(rows: DeviceRows, affine: AffineRule, columns: dict[str, Tensor], y: Tensor, weight: Tensor) -> Tensor:
    """The step; returns the losses [n, samples]. Where the gradient itself is not asked for, `weight` holds the rate
    already."""
    losses, g = rows.gradient("w", y, weight)
    if not affine.raw:
        _drag(rows, affine, columns)
        torch._foreach_sub_(rows.parts["w"], g)
        return losses
    if affine.sam:
        g = _climbed(rows, affine.sam, g, y, weight)
    add_up({name: rows.parts[name] for name in affine.sums}, g)
    momentum = "m" in rows.flat
    if momentum:
        rows.flat["m"].mul_(affine.momentum)
        torch._foreach_add_(rows.parts["m"], g)
        if affine.decay:
            rows.flat["m"].add_(rows.flat["w"], alpha=affine.decay)
    _drag(rows, affine, columns)
    for i, (w, part) in enumerate(zip(rows.parts["w"], rows.parts["m"] if momentum else g, strict=True)):
        rate = columns["rate"] if "rate" not in rows.parts else rows.parts["rate"][i]
        w.addcmul_(part, rate if rate.dim() == w.dim() else rate[:, :, None], value=-1)
    return losses


def _drag(rows: DeviceRows, affine: AffineRule, columns: dict[str, Tensor]) -> None:
    w = rows.flat["w"]
    if affine.pulls:
        w.addcmul_(w, rows.flat.get("pull", columns["pull"]), value=-1)
    if "shift" in rows.flat:
        w.add_(rows.flat["shift"])


def _climbed(rows: DeviceRows, sam: float, g: Vector, y: Tensor, weight: Tensor) -> Vector:
    """The gradient at w + sam g/|g|; a zero gradient does not move."""
    norms = torch.stack([torch.linalg.vector_norm(part.flatten(1), dim=1) for part in g], 1)
    norm = torch.linalg.vector_norm(norms, dim=1, keepdim=True)
    far = torch.where(norm > 0, sam / norm, torch.zeros_like(norm))
    rows.flat["climbed"].copy_(rows.flat["w"])
    for w, part in zip(rows.parts["climbed"], g, strict=True):
        w.addcmul_(part, far if w.dim() == 2 else far[:, :, None])
    return rows.gradient("climbed", y, weight)[1]

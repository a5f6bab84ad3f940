"""What a method sees of things that belong to the run: its network's layers, its devices' memory and mean path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class Layout(Protocol):
    """How the flat vector is cut into the model's layers (bench/learning/flat.py)."""

    size: int
    layers: tuple[str, ...]
    deep: Tensor  # [L] bool
    head: Tensor  # [L] bool

    def expand(self, layers: Tensor) -> Tensor: ...  # [..., L] -> [..., P]


class Clients(Protocol):
    """The devices' memory: `rows("c")` is [N, ...], a device never heard of has its initial row."""

    def rows(self, name: str) -> Tensor: ...


@dataclass(frozen=True)
class Trace:
    """Means over the distinct devices that reached a local epoch, accumulated as results come in."""

    w: Tensor  # [epochs + 1, P]
    gradient: Tensor  # [epochs, P]: of the sum of the epoch's gradients; with "step_means" of their mean
    reached: Tensor  # [epochs + 1]: devices behind each mean

"""What becomes of a vector on its way from a device to the server: a row of transforms, each a pure function.

A vector is the device's delta in the layers that it sends, or one that the method sends beside it
(Algorithm.extra_vectors). What one transform makes of it is given to the next; the server puts what it receives in its
place and takes the rest to be zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from algorithms.base import State


@dataclass(frozen=True)
class Size:
    """Of the message that a vector is: so many numbers of so many bits each, and bits beside them."""

    numbers: int
    bits: int = 32
    beside: int = 0

    @property
    def bytes(self) -> int:
        return -(-(self.numbers * self.bits + self.beside) // 8)


@dataclass(frozen=True)
class Draw:
    """Random numbers of this upload, float64 [n]; they depend on nothing else that is drawn."""

    uniform: Callable[[int], Tensor]  # in [0, 1)
    normal: Callable[[int], Tensor]  # standard


@dataclass(frozen=True)
class Sent:
    values: Tensor  # [m]
    kept: Tensor | None = None  # [m] long, ascending: which of the given numbers these are; None: all
    memory: State = field(default_factory=dict)  # [n] each: what the device remembers


@dataclass(frozen=True, kw_only=True)
class Transform:
    """Its fields are set with upload.field=..., and have bounds as those of a method."""

    @property
    def remembers(self) -> tuple[str, ...]:
        """Vectors that a device keeps: a number for each coordinate, zero at first."""
        return ()

    def size(self, size: Size) -> Size:
        """What a message of this size becomes, by its size alone: the clock knows it before anything is trained."""
        return size

    def send(self, values: Tensor, memory: State, draw: Draw) -> Sent:
        """values [n] and memory [n] of one device, for one upload."""
        raise NotImplementedError

"""The largest numbers alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from algorithms.base import State
from algorithms.uploads.base import Draw, Sent, Size, Transform

RESIDUAL = "residual"


def largest(values: Tensor, k: int) -> Tensor:
    """[k] places of the largest in size, ascending; of equal ones the first."""
    size = values.abs()
    least = size.topk(k).values[-1]
    above, equal = size > least, size == least
    return (above | (equal & (equal.cumsum(0) <= k - above.sum()))).nonzero()[:, 0]


@dataclass(frozen=True, kw_only=True)
class TopK(Transform):
    """The largest numbers of each vector; with error feedback a device adds what it left out to its next upload.

    Aji, Heafield: Sparse Communication for Distributed Gradient Descent. EMNLP 2017. Error feedback: Stich,
    Cordonnier, Jaggi: Sparsified SGD with Memory. NeurIPS 2018.

    Of n numbers max(1, round(fraction n)) are sent, each with its place in ceil(log2 n) bits, or with a bit for each of
    the n where that is less; all n need no places.
    """

    fraction: float = field(default=0.1, metadata={"above": 0, "max": 1})
    error_feedback: bool = True

    @property
    def remembers(self) -> tuple[str, ...]:
        return (RESIDUAL,) if self.error_feedback else ()

    def number(self, n: int) -> int:
        return min(n, max(1, round(self.fraction * n)))

    def size(self, size: Size) -> Size:
        n, k = size.numbers, self.number(size.numbers)
        places = 0 if k == n else min(k * (n - 1).bit_length(), n)
        return Size(k, size.bits, size.beside + places)

    def send(self, values: Tensor, memory: State, draw: Draw) -> Sent:
        whole = values + memory[RESIDUAL] if self.error_feedback else values
        kept = largest(whole, self.number(len(whole)))
        memory = {name: whole.index_fill(0, kept, 0.0) for name in self.remembers}
        return Sent(whole[kept], kept, memory)

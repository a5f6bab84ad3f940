"""Numbers of few bits."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from algorithms.base import State
from algorithms.uploads.base import Draw, Sent, Size, Transform


@dataclass(frozen=True, kw_only=True)
class Quantise(Transform):
    """Whole multiples of a step, in `bits` bits each; stochastic rounding is right in the mean.

    Alistarh, Grubic, Li, Tomioka, Vojnovic: QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding.
    NeurIPS 2017, with the largest number in size as the scale instead of the norm.

    With M the largest number of a vector in size and s = 2^(bits - 1) - 1, x becomes q M / s with q = x s / M rounded
    to the nearest, or up with the probability of what is beyond the whole part. M travels in 32 bits.
    """

    bits: int = field(default=8, metadata={"min": 2, "max": 24})
    stochastic: bool = True

    def size(self, size: Size) -> Size:
        return Size(size.numbers, self.bits, size.beside + 32)

    def send(self, values: Tensor, memory: State, draw: Draw) -> Sent:
        x, steps = values.double(), 2 ** (self.bits - 1) - 1
        scale = x.abs().max()
        if scale == 0:
            return Sent(values)
        beyond = draw.uniform(len(x)) if self.stochastic else 0.5
        q = (x / scale * steps + beyond).floor().clamp(-steps, steps)
        return Sent((q * scale / steps).to(values.dtype))

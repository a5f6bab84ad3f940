"""A transform of uploads of your own: one class in one file.

python bench.py upload=docs/examples/signs.py
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from algorithms.base import State
from algorithms.uploads.base import Draw, Sent, Size, Transform


@dataclass(frozen=True, kw_only=True)
class Signs(Transform):
    """Signs alone, and one number for their size; a device adds what that leaves out to its next upload.

    Karimireddy, Rebjock, Stich, Jaggi: Error Feedback Fixes SignSGD and other Gradient Compression Schemes. ICML 2019.
    """

    decay: float = field(default=1.0, metadata={"min": 0, "max": 1})  # of what was left out

    @property
    def remembers(self) -> tuple[str, ...]:
        return ("left",)

    def size(self, size: Size) -> Size:
        return Size(size.numbers, 1, size.beside + 32)

    def send(self, values: Tensor, memory: State, draw: Draw) -> Sent:
        whole = values + self.decay * memory["left"]
        sent = torch.where(whole < 0, -1, 1) * whole.abs().mean()
        return Sent(sent, memory={"left": whole - sent})

"""Test loss and accuracy of what a method deploys."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from bench.flat import Layout, bind

CHUNK = 1024


class Evaluate:
    """Called with one model [P], or with [M, P] whose figures are averaged."""

    def __init__(
        self, module: nn.Module, layout: Layout, x: Tensor, y: Tensor, inputs: Callable[[Tensor], Tensor]
    ) -> None:
        self.module, self.layout, self.x, self.y, self.inputs = module, layout, x, y, inputs

    def first_chunk(self) -> Evaluate:
        return Evaluate(self.module, self.layout, self.x[:CHUNK], self.y[:CHUNK], self.inputs)

    def __call__(self, w: Tensor) -> tuple[float, float]:
        rows = [self._one(row) for row in self.layout.rows(w.reshape(-1, w.shape[-1]))]
        return sum(loss for loss, _ in rows) / len(rows), sum(accuracy for _, accuracy in rows) / len(rows)

    def _one(self, w: Tensor) -> tuple[float, float]:
        loss, right = w.new_zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.long, device=w.device)
        for logits, y in self._logits(w):
            loss += nn.functional.cross_entropy(logits, y, reduction="sum")
            right += (logits.argmax(1) == y).sum()
        return float(loss) / len(self.y), float(right) / len(self.y)

    def right(self, w: Tensor) -> Tensor:
        """[test samples] bool: which of them the model w [P] gets right."""
        return torch.cat([logits.argmax(1) == y for logits, y in self._logits(self.layout.rows(w[None])[0])])

    @torch.no_grad()
    def _logits(self, w: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        bind(self.module, self.layout.views(w))
        self.module.eval()
        for x, y in zip(torch.split(self.x, CHUNK), torch.split(self.y, CHUNK), strict=True):
            yield self.module(self.inputs(x)), y

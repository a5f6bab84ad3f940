"""The test set, in chunks that are the same however many processes share the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

from bench.learning.flat import Layout, bind

CHUNK = 1024


class Evaluate:
    """What models answer to the test samples."""

    def __init__(
        self, module: nn.Module, layout: Layout, x: Tensor, y: Tensor, inputs: Callable[[Tensor], Tensor]
    ) -> None:
        self.module, self.layout, self.y, self.inputs = module, layout, y, inputs
        self._x, self._y = torch.split(x, CHUNK), torch.split(y, CHUNK)

    @property
    def chunks(self) -> int:
        return len(self._y)

    def sums(self, w: Tensor, chunks: Iterable[int]) -> Tensor:
        """[chunks, 2]: the summed loss of the model w [P] and how many of its answers are right."""
        rows = [torch.stack([_loss(logits, y), (logits.argmax(1) == y).sum()]) for logits, y in self._logits(w, chunks)]
        return torch.stack(rows)

    def answers(self, w: Tensor) -> tuple[float, Tensor]:
        """The mean loss of the model w [P], and [test samples] bool: which of them it gets right."""
        found = [(_loss(logits, y), logits.argmax(1) == y) for logits, y in self._logits(w, range(self.chunks))]
        losses, right = zip(*found, strict=True)
        return float(torch.stack(losses).sum()) / len(self.y), torch.cat(right)

    @torch.no_grad()
    def _logits(self, w: Tensor, chunks: Iterable[int]) -> Iterator[tuple[Tensor, Tensor]]:
        bind(self.module, self.layout.views(self.layout.rows(w[None])[0]))
        self.module.eval()
        for chunk in chunks:
            yield self.module(self.inputs(self._x[chunk])), self._y[chunk]


def _loss(logits: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits, y, reduction="sum").double()

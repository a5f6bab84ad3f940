"""The test set, in chunks that are the same however many processes share the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

from bench.learning.flat import Layout, bind

CHUNK = 1024
Answers = Callable[[Tensor, Tensor], Tensor]  # a model [P], inputs -> logits


class Evaluate:
    """What models answer to the test samples."""

    def __init__(
        self,
        module: nn.Module,
        layout: Layout,
        x: Tensor,
        y: Tensor,
        inputs: Callable[[Tensor], Tensor],
        answers: Answers | None = None,
    ) -> None:
        """`answers` takes the module's place."""
        self.module, self.layout, self.y, self.inputs, self.model = module, layout, y, inputs, answers
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
        row = self.layout.rows(w[None])[0]
        if self.model is None:
            bind(self.module, self.layout.views(row))
            self.module.eval()
        for chunk in chunks:
            x = self.inputs(self._x[chunk])
            yield self.module(x) if self.model is None else self.model(row, x), self._y[chunk]


def _loss(logits: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits, y, reduction="sum").double()

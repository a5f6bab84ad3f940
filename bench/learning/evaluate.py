"""The test set, in chunks that are the same however many processes share the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

from bench.learning.flat import Layout, bind
from bench.tasks.base import Task
from bench.tasks.classification import Classification

CHUNK = 1024
Answers = Callable[[Tensor, Tensor], Tensor]  # a model [P], inputs -> outputs


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
        task: Task | None = None,
        unit: float = 1.0,
    ) -> None:
        """`answers` takes the module's place; `unit` is that of the labels."""
        self.module, self.layout, self.y, self.inputs, self.model = module, layout, y, inputs, answers
        self.task, self.unit = task or Classification(), unit
        self._x, self._y = torch.split(x, CHUNK), torch.split(y, CHUNK)

    @property
    def chunks(self) -> int:
        return len(self._y)

    def sums(self, w: Tensor, chunks: Iterable[int]) -> Tensor:
        """[chunks, 2]: the summed loss and the summed scores of the model w [P]."""
        rows = [torch.stack([self._loss(o, y), self.task.score(o, y).sum()]) for o, y in self.outputs(w, chunks)]
        return torch.stack(rows)

    def value(self, mean: Tensor) -> Tensor:
        """The task's metric, of means of scores."""
        return self.task.value(mean, self.unit)

    def answers(self, w: Tensor) -> tuple[float, Tensor]:
        """The mean loss of the model w [P], and the score of each test sample."""
        found = [(self._loss(o, y), self.task.score(o, y)) for o, y in self.outputs(w, range(self.chunks))]
        losses, scores = zip(*found, strict=True)
        return float(torch.stack(losses).sum()) / len(self.y), torch.cat(scores)

    def _loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return self.task.loss(outputs, y, "sum").double()

    @torch.no_grad()
    def outputs(self, w: Tensor, chunks: Iterable[int]) -> Iterator[tuple[Tensor, Tensor]]:
        """What the model w [P] answers to these chunks, and their labels."""
        row = self.layout.rows(w[None])[0]
        if self.model is None:
            bind(self.module, self.layout.views(row))
            self.module.eval()
        for chunk in chunks:
            x = self.inputs(self._x[chunk])
            yield self.module(x) if self.model is None else self.model(row, x), self._y[chunk]

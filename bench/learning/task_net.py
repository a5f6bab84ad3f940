"""What a device trains where the user brings no module: a network and its task, without Lightning, which is slow."""

from __future__ import annotations

from torch import Tensor, nn

from bench.learning.batches import Batch
from bench.tasks.base import Task
from bench.tasks.classification import Classification


class TaskNet(nn.Module):
    """One loss per sample; the optimiser belongs to the federated method."""

    def __init__(self, net: nn.Module, task: Task | None = None) -> None:
        super().__init__()
        self.net = net
        self.task = task or Classification()

    @property
    def cross_entropy(self) -> bool:
        """The loss is the cross-entropy of `net`: engines need not ask autograd."""
        return self.task.cross_entropy

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.net(x)
        return outputs

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        x, y = batch
        return self.task.loss(self.net(x), y)

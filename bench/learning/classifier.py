"""What a device trains where the user brings no module: a network and its loss, without Lightning, which is slow."""

from __future__ import annotations

from torch import Tensor, nn

from bench.learning.batches import Batch


class Classifier(nn.Module):
    """One cross-entropy per sample; the optimiser belongs to the federated method."""

    classifier = True  # the loss is the cross-entropy of `net`: engines need not ask autograd

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(x)
        return logits

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y, reduction="none")

"""What FedGH-like methods need of the last layer: the features that enter it, and its training on them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bench.engine import kernel
from bench.learning.batches import Batches
from bench.learning.flat import Layout, bind, trainable
from bench.tasks.base import Task


def prototypes(
    module: nn.Module, layout: Layout, batches: Batches, clients: Sequence[int], w: Tensor
) -> dict[str, Tensor]:
    """Class means [K, C, d] of what enters the head with the models w [K, P], and the samples behind each."""
    module.eval()
    seen: list[Tensor] = []
    hook = module.get_submodule(layout.head_name).register_forward_pre_hook(
        lambda _, args: seen.append(args[0].detach())
    )
    sums, counts = [], []
    try:
        with torch.no_grad():
            for row, client in zip(w, clients, strict=True):
                bind(module, layout.views(row))
                seen.clear()
                labels = []
                for index in batches.whole(client):
                    x, y = batches.load(index)
                    module(x)
                    labels.append(nn.functional.one_hot(y, batches.classes).to(w.dtype))
                one_hot, features = torch.cat(labels), torch.cat(seen).flatten(1)
                counts.append(one_hot.sum(0))
                sums.append(one_hot.T @ features / counts[-1].clamp(min=1)[:, None])
    finally:
        hook.remove()
    return {"prototypes": torch.stack(sums), "counts": torch.stack(counts)}


class HeadFit:
    """Fed.fit_head: w with its head trained on (feature, label) pairs, full-batch, by the kernel's plain step."""

    def __init__(self, module: nn.Module, layout: Layout, task: Task) -> None:
        self.module, self.layout, self.task = module, layout, task

    def __call__(self, w: Tensor, features: Tensor, labels: Tensor, steps: int, lr: float) -> Tensor:
        w = w.clone()
        views = self.layout.views(w)
        bind(self.module, views)
        head = self.module.get_submodule(self.layout.head_name)
        inside = {id(p) for p in head.parameters()}
        pairs = [(p, view) for p, view in zip(trainable(self.module), views, strict=True) if id(p) in inside]
        params, parts = [p for p, _ in pairs], [view for _, view in pairs]
        t = kernel.Terms(lr=lr, scale=1.0, prox=0.0, drift=None, mask=None, sam=0.0)
        for _ in range(steps):
            loss = self.task.loss(head(features), labels, "mean")
            kernel.step(parts, list(torch.autograd.grad(loss, params)), None, parts, t, 0.0, 0.0)
        return w

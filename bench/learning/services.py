"""What a method may ask the run for beyond the vectors it is given (algorithms.base.Fed)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bench.learning.flat import Layout, bind
from bench.seeding import stream
from datamodules.base import Loaded, Split

ACTIVATIONS = (nn.ReLU, nn.LeakyReLU, nn.GELU, nn.Tanh, nn.Sigmoid)
PER_CLASS, PER_CLASS_OF_MANY, MANY = 5, 2, 20  # Fed2A: 5 stimuli a class, 2 where there are more than 20 classes


class LayerOutputs:
    """What each layer answers, after its activation, to a few samples of every class, drawn once for a seed."""

    def __init__(
        self, module: nn.Module, layout: Layout, loaded: Loaded, inputs: Callable[[Tensor], Tensor], seed: int
    ) -> None:
        self.module, self.layout, self.loaded, self.inputs, self.seed = module, layout, loaded, inputs, seed

    @torch.no_grad()
    def __call__(self, models: Tensor, stimuli: str) -> list[Tensor]:
        """[K, P] -> for each layer [K, m, d]; the last one through a softmax."""
        x = self._stimuli(self.loaded.train if stimuli == "train" else self.loaded.test, models.device)
        self.module.eval()
        rows = [self._one(w, x) for w in self.layout.rows(models)]
        return [torch.stack(layer) for layer in zip(*rows, strict=True)]

    def _stimuli(self, split: Split, device: torch.device) -> Tensor:
        """Fed2A, Sec. 4.3: "randomly chosen"; neighbours in a file may be nearly the same image."""
        each, index = PER_CLASS if self.loaded.classes <= MANY else PER_CLASS_OF_MANY, []
        for c in range(self.loaded.classes):
            own = (split.y == c).nonzero()[:, 0]
            index.append(own[stream(self.seed, "stimuli", c).permutation(len(own))[:each]])
        return self.inputs(split.x[torch.cat(index)].to(device))

    def _one(self, w: Tensor, x: Tensor) -> list[Tensor]:
        bind(self.module, self.layout.views(w))
        seen: dict[str, Tensor] = {}
        last = ""

        def watch(name: str) -> Callable[[nn.Module, object, Tensor], None]:
            def hook(module: nn.Module, args: object, output: Tensor) -> None:
                nonlocal last
                if name in self.layout.layers:
                    last = name
                    seen[name] = output
                elif isinstance(module, ACTIVATIONS) and last:
                    seen[last] = output

            return hook

        leaves = [(n, m) for n, m in self.module.named_modules() if not list(m.children())]
        hooks = [m.register_forward_hook(watch(n)) for n, m in leaves]
        try:
            self.module(x)
        finally:
            for handle in hooks:
                handle.remove()
        outputs = [seen[layer].flatten(1) for layer in self.layout.layers]
        return [*outputs[:-1], outputs[-1].softmax(1)]

"""The engine for chains of linear layers and ReLU: forward and backward over flat views, without autograd."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from torch import Tensor, nn

from algorithms.base import Fed, LocalRule
from bench.engine import lone
from bench.engine.affine import AffineRule
from bench.engine.base import Engine, Group
from bench.engine.crowd import Crowd
from bench.engine.stack import Linear
from bench.engine.structure import chain
from bench.learning.batches import Batches
from bench.learning.flat import Layout, trainable

LARGE = 2**18  # bytes of a model from which on it is trained alone


class Dense(Engine):
    """Small models are trained in stacks; large ones device by device, unless the gradient itself is asked for."""

    name = "chain"

    def __init__(self, module: nn.Module, layout: Layout, batches: Batches) -> None:
        super().__init__(module, layout, batches)
        found = linears(module)
        if isinstance(found, str):
            raise ValueError(f"the model is no dense chain: {found}")
        like = trainable(module)[0].detach()
        self.linears, self.crowd = found, Crowd(found, batches, like, layout.size)
        heavy = self.crowd.most == 1 or layout.size * like.element_size() > LARGE
        self.large = heavy and not self.crowd.thin

    def epoch(self, group: Group, epoch: int, rule: LocalRule, fed: Fed) -> None:
        affine = AffineRule(group, rule, fed)
        if self.large and not affine.gradient:
            for k in group.active(epoch):
                lone.train(self.linears, self.batches, group, epoch, affine, k)
                group.took([k], epoch)
        else:
            self.crowd.epoch(group, epoch, affine)

    def gradient(self, w: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        return self.crowd.gradient(w, index)


def linears(module: nn.Module) -> list[Linear] | str:
    """The linear layers of a chain that has no others with parameters; or why the model is not one."""
    layers = chain(module)
    return layers if isinstance(layers, str) else linear_row(module, layers, [])


def linear_row(module: nn.Module, layers: Sequence[nn.Module], before: Sequence[nn.Module]) -> list[Linear] | str:
    """These layers, which with those before them are all of the chain; or why they are no row of linear ones."""
    layers = [layer for layer in layers if not isinstance(layer, nn.Flatten)]
    if stranger := next((layer for layer in layers if not isinstance(layer, nn.Linear | nn.ReLU)), None):
        return f"it contains {stranger}"
    if isinstance(layers[0], nn.ReLU):
        return "it begins with a ReLU"
    place = places(module)
    own = [p for layer in (*before, *layers) for p in layer.parameters()]
    if sorted(map(id, own)) != sorted(place):
        return "a layer is frozen or used twice"
    return [
        Linear(
            inner=layer.in_features,
            outer=layer.out_features,
            weight=place[id(layer.weight)],
            bias=None if layer.bias is None else place[id(layer.bias)],
            relu=isinstance(after, nn.ReLU),
        )
        for layer, after in itertools.zip_longest(layers, layers[1:])
        if isinstance(layer, nn.Linear)
    ]


def places(module: nn.Module) -> dict[int, int]:
    """Where in a model each parameter that is trained begins, by its id."""
    params = trainable(module)
    return dict(zip(map(id, params), itertools.accumulate((p.numel() for p in params), initial=0), strict=False))

"""The papers' plain convolutional networks: convolutions (shallow), then fully connected layers (deep).

Where a paper prints no channel count, ours stands here. `width` multiplies channels and hidden units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from bench.errors import UserError

Node = Mapping[str, Any]
Shape = tuple[int, ...]


def scaled(sizes: Sequence[int], width: float) -> list[int]:
    return [max(1, round(size * width)) for size in sizes]


def network(
    features: Sequence[nn.Module], shape: Shape, hidden: Sequence[int], classes: int, drop: float = 0
) -> nn.Module:
    """The features flattened into ReLU layers of `hidden` units and a linear output."""
    with torch.no_grad():
        units = nn.Sequential(*features)(torch.zeros(1, *shape)).numel()
    layers: list[nn.Module] = [*features, nn.Flatten()]
    for size in hidden:
        layers += [*([nn.Dropout(drop)] if drop else []), nn.Linear(units, size), nn.ReLU()]
        units = size
    return nn.Sequential(*layers, *([nn.Dropout(drop)] if drop else []), nn.Linear(units, classes))


def _pooled(inner: int, outer: int, kernel: int, padding: int | str) -> list[nn.Module]:
    return [nn.Conv2d(inner, outer, kernel, padding=padding), nn.MaxPool2d(2), nn.ReLU()]


def fed2a_cnn(model: Node, shape: Shape, classes: int) -> nn.Module:
    """Two 5x5 convolutions without padding, one pool, two hidden layers: Fed2A, Table 3 (counts match exactly)."""
    if len(model["channels"]) != 2:
        raise UserError(f"model.channels={model['channels']} is not possible: fed2a_cnn has two convolutions.")
    one, two = scaled(model["channels"], model["width"])
    features = [nn.Conv2d(shape[0], one, 5), nn.ReLU(), *_pooled(one, two, 5, 0)]
    return network(features, shape, scaled(model["hidden"], model["width"]), classes)


def mnist_cnn(model: Node, shape: Shape, classes: int) -> nn.Module:
    """Two 5x5 convolutions with pools, to 7x7x64, then 512 units: FedAgg, Sec. VI-A."""
    one, two, units = scaled((32, 64, 512), model["width"])
    return network([*_pooled(shape[0], one, 5, 2), *_pooled(one, two, 5, 2)], shape, [units], classes)


def lenet5(model: Node, shape: Shape, classes: int) -> nn.Module:
    """Two 5x5 convolutions with pools, to 5x5x32, then 120 and 84 units: FedAgg, Sec. VI-A; 16 first (ours)."""
    one, two, *units = scaled((16, 32, 120, 84), model["width"])
    return network([*_pooled(shape[0], one, 5, 2), *_pooled(one, two, 5, 0)], shape, units, classes)


def lenet5_3x3(model: Node, shape: Shape, classes: int) -> nn.Module:
    """Two 3x3 convolutions with pools, then two dense layers: FedLC, Sec. 5.1; the sizes are LeNet's."""
    one, two, *units = scaled((6, 16, 120, 84), model["width"])
    return network([*_pooled(shape[0], one, 3, 0), *_pooled(one, two, 3, 0)], shape, units, classes)


def cifar10_cnn(model: Node, shape: Shape, classes: int) -> nn.Module:
    """Three 3x3 convolutions with pools, to 4x4x64, dropout, 512 units: FedAgg, Sec. VI-A; 32 and 64 first (ours)."""
    one, two, three, units = scaled((32, 64, 64, 512), model["width"])
    features = [*_pooled(shape[0], one, 3, 1), *_pooled(one, two, 3, 1), *_pooled(two, three, 3, 1)]
    return network(features, shape, [units], classes, drop=model["dropout"])


def alexnet(model: Node, shape: Shape, classes: int) -> nn.Module:
    """Five convolutions and three dense layers, strides for 28 to 32 pixels (ours): FedLC, Sec. 5.1."""
    a, b, c, d, e, *units = scaled((64, 192, 384, 256, 256, 1024, 1024), model["width"])
    features = [
        *_pooled(shape[0], a, 5, 2),
        *_pooled(a, b, 5, 2),
        *[nn.Conv2d(b, c, 3, padding=1), nn.ReLU()],
        *[nn.Conv2d(c, d, 3, padding=1), nn.ReLU()],
        *_pooled(d, e, 3, 1),
    ]
    return network(features, shape, units, classes, drop=model["dropout"])

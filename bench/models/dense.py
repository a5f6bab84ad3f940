"""Linear model and multi-layer perceptron."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from torch import nn


def linear(model: Mapping[str, Any], shape: tuple[int, ...], classes: int) -> nn.Module:
    """Multinomial logistic regression; with one output linear regression."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), classes))


def mlp(model: Mapping[str, Any], shape: tuple[int, ...], classes: int) -> nn.Module:
    """ReLU perceptron with the units of `hidden`, each times `width`."""
    units = [math.prod(shape), *(max(1, round(h * model["width"])) for h in model["hidden"])]
    layers: list[nn.Module] = [nn.Flatten()]
    for inner, outer in pairwise(units):
        layers += [nn.Linear(inner, outer), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(units[-1], classes))

"""The papers' networks. A network is a function (node, shape, classes) -> nn.Module under its name in NETWORKS.

A module may declare `deep` (names of its fully connected part) and `head` (its last layer); see bench.flat.Layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from bench.models.dense import linear, mlp

Network = Callable[[Mapping[str, Any], tuple[int, ...], int], nn.Module]
NETWORKS: dict[str, Network] = {"linear": linear, "mlp": mlp}


def build(model: Mapping[str, Any], shape: tuple[int, ...], classes: int, rng: np.random.Generator) -> nn.Module:
    """The network for inputs of `shape`, initialised from `rng`."""
    with torch.random.fork_rng(devices=[]):  # layers initialise themselves from torch's global generator
        torch.manual_seed(int(rng.integers(2**63 - 1)))
        return NETWORKS[model["name"]](model, shape, classes)


def names() -> list[str]:
    return sorted(NETWORKS)

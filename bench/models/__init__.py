"""The papers' networks, and two for text.

A network is a function (node, shape, classes) -> nn.Module under its name in NETWORKS; `classes` are its outputs.

A module may declare `deep` (names of its fully connected part) and `head` (its last layer): bench.learning.flat.Layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from bench.errors import UserError
from bench.models import convolutional as conv
from bench.models import custom, deep, dense, text

Network = Callable[[Mapping[str, Any], tuple[int, ...], int], nn.Module]
FUNCTIONS: tuple[Network, ...] = (
    *(dense.linear, dense.mlp),
    *(conv.fed2a_cnn, conv.mnist_cnn, conv.lenet5, conv.lenet5_3x3, conv.cifar10_cnn, conv.alexnet),
    *(deep.vgg11, deep.vgg16, deep.resnet20, deep.resnet18, deep.googlenet, deep.densenet121),
    *(text.char_mlp, text.char_gru),
)
NETWORKS: dict[str, Network] = {"custom": custom.build, **{function.__name__: function for function in FUNCTIONS}}


def build(model: Mapping[str, Any], shape: tuple[int, ...], classes: int, rng: np.random.Generator) -> nn.Module:
    """The network for inputs of `shape`, initialised from `rng`."""
    with torch.random.fork_rng(devices=[]):  # layers initialise themselves from torch's global generator
        torch.manual_seed(int(rng.integers(2**63 - 1)))
        net = NETWORKS[model["name"]](model, shape, classes)
    refuse_batch_norm(net)
    return net


def refuse_batch_norm(net: nn.Module) -> None:
    """Running statistics are not parameters: no method says how to average them, and devices' data differ."""
    for name, layer in net.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            channels = layer.num_features
            # as Wu and He (2018), 32 groups where that leaves each at least two channels to normalise over
            groups = max((g for g in range(1, 33) if channels % g == 0 and channels // g >= 2), default=1)
            raise UserError(
                f"The layer {name} is a {type(layer).__name__}, whose running statistics cannot be averaged over "
                f"devices with different data: write nn.GroupNorm({groups}, {channels}) in its place."
            )

"""LocalModule: what a device trains, as a LightningModule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import datamodules._torchvision  # noqa: F401  # before Lightning

# isort: split
import pytorch_lightning as pl
from torch import nn

from bench.learning.classifier import Classifier


class LocalModule(Classifier, pl.LightningModule):
    """The classifier for all that expects Lightning; no Trainer runs it."""


def local_module(model: Mapping[str, Any], net: nn.Module) -> nn.Module:
    """The user's own LightningModule as it is, any other network inside a LocalModule."""
    return net if model["name"] == "custom" else LocalModule(net)

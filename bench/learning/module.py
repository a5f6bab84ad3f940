"""LocalModule: what a device trains, as a LightningModule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from bench.learning.classifier import Classifier
from bench.learning.lightning import pl


class LocalModule(Classifier, pl.LightningModule):
    """The classifier for all that expects Lightning; no Trainer runs it."""


def local_module(model: Mapping[str, Any], net: nn.Module) -> nn.Module:
    """The user's own LightningModule as it is, any other network inside a LocalModule."""
    return net if model["name"] == "custom" else LocalModule(net)

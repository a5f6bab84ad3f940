"""LocalModule: what a device trains, as a LightningModule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from bench.learning.lightning import pl
from bench.learning.task_net import TaskNet
from bench.tasks.base import Task


class LocalModule(TaskNet, pl.LightningModule):
    """The same for all that expects Lightning; no Trainer runs it."""


def local_module(model: Mapping[str, Any], net: nn.Module, task: Task) -> nn.Module:
    """The user's own LightningModule as it is, any other network inside a LocalModule."""
    own = model["name"] == "custom" and hasattr(net, "training_step")
    return net if own else LocalModule(net, task)

"""A module of the user's own, as the tests of custom models write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from bench.prepare import compose
from bench.prepare.assemble import build

NET = """
import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional as F

class Net(pl.LightningModule):
    def __init__(self, shape, classes, hidden=64):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(shape[0], hidden), nn.ReLU(), nn.Linear(hidden, classes))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return F.cross_entropy(self(x), y, reduction="none")
"""
SCALAR = NET.replace(', reduction="none"', "")
SMALL = ["clients=4", "cohort=2", "rounds=2", "epochs=1", "logger=none", "engine=eager"]
KEYS = ["model=custom", "model.target=./net.py:Net", *SMALL]


def write(text: str, path: str = "net.py") -> None:
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text(text)


def config(*keys: str) -> dict[str, Any]:
    return compose.config([*KEYS, *keys])


def perceptron() -> torch.Tensor:
    return trained(compose.config([*SMALL, "model=mlp", "model.hidden=[64]"]))[0]


def weights(*keys: str) -> tuple[torch.Tensor, dict[str, Any]]:
    return trained(config(*keys))


def trained(config: dict[str, Any]) -> tuple[torch.Tensor, dict[str, Any]]:
    parts = build(config)
    while not parts.loop.finished:
        parts.loop.advance()
    return parts.loop.server["w"], parts.model


SGD = "\n    def configure_optimizers(self):\n        return torch.optim.SGD(self.parameters(), {})\n"

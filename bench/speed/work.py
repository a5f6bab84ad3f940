"""What `python -m bench speed` measures: rounds of generated tensors of the right shape."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bench import models
from bench.seeding import stream

LR = 0.01


@dataclass(frozen=True)
class Workload:
    """`clients` devices with `steps` batches each; device k makes 1 + k mod `epochs` passes over them a round."""

    model: dict[str, Any]
    shape: tuple[int, ...]
    classes: int
    batch_size: int
    clients: int
    steps: int
    epochs: int = 1
    cohort: int | None = None  # None: all

    def passes(self, client: int) -> int:
        return 1 + client % self.epochs

    @property
    def client_steps(self) -> int:
        drawn = self.clients if self.cohort is None else self.cohort
        return self.steps * sum(map(self.passes, range(self.clients))) * drawn // self.clients

    def net(self) -> nn.Module:
        return models.build({"width": 1.0, **self.model}, self.shape, self.classes, stream(0, "init"))


WORKLOADS = {
    "mnist_linear": Workload({"name": "linear"}, (1, 28, 28), 10, 32, 100, 57),
    "fmnist_mlp": Workload({"name": "mlp", "hidden": [400]}, (1, 28, 28), 10, 10, 10, 120),
    "emnist_lenet": Workload({"name": "lenet5"}, (1, 28, 28), 26, 64, 20, 20),
    "mnist_cnn": Workload({"name": "mnist_cnn"}, (1, 28, 28), 10, 64, 10, 10),
    "cifar10_cnn": Workload({"name": "cifar10_cnn", "dropout": 0.0}, (3, 32, 32), 10, 64, 10, 10),
    "gtsrb_cnn": Workload(
        {"name": "fed2a_cnn", "channels": [64, 128], "hidden": [128, 256]}, (3, 32, 32), 43, 48, 6, 5
    ),
    "digits_1000": Workload({"name": "mlp", "hidden": [32]}, (1, 8, 8), 10, 10, 1000, 1, epochs=3),
}


class Data:
    def __init__(self, load: Workload) -> None:
        count = load.clients * load.batch_size * load.steps
        rng = np.random.default_rng(0)
        self.x = torch.from_numpy(rng.integers(0, 256, (count, *load.shape), dtype=np.uint8))
        self.y = torch.from_numpy(rng.integers(0, load.classes, count))
        self.clients = np.split(np.arange(count), load.clients)

    @staticmethod
    def inputs(x: Tensor) -> Tensor:
        return x.float() * (1 / 255)


@dataclass
class Round:
    """One way of running a round. `overhead`: seconds of the last one that were not local training."""

    run: Callable[[], object]
    overhead: Callable[[], float | None] = field(default=lambda: None)

    def __call__(self) -> tuple[float, float | None]:
        begin = time.perf_counter()
        self.run()
        return time.perf_counter() - begin, self.overhead()

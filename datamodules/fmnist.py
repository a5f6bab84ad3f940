from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from datamodules.idx import NAMES, _MnistLike, training_starts_with
from datamodules.sources import Files, Package


@dataclass(frozen=True, kw_only=True)
class FMNIST(_MnistLike):
    """Fashion-MNIST (Xiao, Rasul, Vollgraf 2017)."""

    title = "Fashion-MNIST: photographs of clothes, 28x28"
    files = Files(
        title="Fashion-MNIST",
        name="fmnist",
        names=NAMES,
        torchvision="FashionMNIST",
        recognise=training_starts_with(9, 0, 0, 3, 0, 2, 7, 2, 5, 5),
        package=Package("dataset-fashion-mnist", Path("/usr/share/datasets/fashion-mnist")),
    )
    mean, std = 0.2860, 0.3530
    defaults: ClassVar[Mapping[str, Any]] = {
        "rounds": 100,
        "clients": 50,
        "cohort": 10,
        "epochs": 1,
        "batch_size": 10,
        "lr": 0.01,
        "target": 0.65,
        "normalise": True,
        "partition": {"name": "classes", "per_client": 2},
        "model": {"name": "mlp", "hidden": [400]},
    }

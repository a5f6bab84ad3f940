from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from datamodules.idx import NAMES, _MnistLike, training_starts_with
from datamodules.sources import Files


@dataclass(frozen=True, kw_only=True)
class MNIST(_MnistLike):
    """MNIST (LeCun et al. 1998)."""

    title = "handwritten digits, 28x28"
    files = Files(
        title="MNIST",
        name="mnist",
        names=NAMES,
        torchvision="MNIST",
        recognise=training_starts_with(5, 0, 4, 1, 9, 2, 1, 3, 1, 4),
    )
    mean, std = 0.1307, 0.3081
    defaults: ClassVar[Mapping[str, Any]] = {
        "rounds": 30,
        "clients": 100,
        "cohort": 20,
        "epochs": 3,
        "batch_size": 32,
        "lr": 0.01,
        "target": 0.85,
        "normalise": False,
        "partition": {"name": "iid"},
        "model": {"name": "linear"},
    }

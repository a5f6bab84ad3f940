from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from datamodules.download import Torchvision
from datamodules.idx import CONTENTS, NAMES, _MnistLike, training_starts_with
from datamodules.sources import Files, Package


@dataclass(frozen=True, kw_only=True)
class FMNIST(_MnistLike):
    """Fashion-MNIST (Xiao, Rasul, Vollgraf 2017)."""

    title = "Fashion-MNIST: photographs of clothes, 28x28"
    files = Files(
        title="Fashion-MNIST",
        name="fmnist",
        names=NAMES,
        contents=CONTENTS,
        torchvision=Torchvision("FashionMNIST", "FashionMNIST/raw"),
        recognise=training_starts_with(9, 0, 0, 3, 0, 2, 7, 2, 5, 5),
        package=Package("dataset-fashion-mnist", Path("/usr/share/datasets/fashion-mnist")),
        sha256={
            "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        },
    )
    mean, std = (0.2860,), (0.3530,)
    defaults: ClassVar = {
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

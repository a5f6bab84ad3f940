from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from datamodules.base import DataError, Loaded, Split
from datamodules.images import _Images, decoded
from datamodules.sources import Files, Forms, obtain

SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".webp")
HOLD_OUT = 10  # one image in ten, where there is no test part
SIDE = 144


@dataclass(frozen=True)
class Stored:
    """Images in a memory-mapped file, by their numbers: only what a batch needs is read."""

    path: Path

    @cached_property
    def images(self) -> Tensor:
        # "c": torch wants memory that could be written to; nothing reaches the file
        return torch.from_numpy(np.load(self.path, mmap_mode="c"))

    def __call__(self, numbers: Tensor) -> Tensor:
        return self.images[numbers.cpu()].to(numbers.device)


@dataclass(frozen=True, kw_only=True)
class Image100(_Images):
    """IMAGE-100: 100 classes of ImageNet (FedLC does not say which), whole images resized to 144x144.

    FEDBENCH_DATA holds it as image100/train/<class>/<image> and image100/val/<class>/<image> (or test/), or as
    image100/<class>/<image>, of which one image in ten of each class is held out for testing. Any 100 classes; of more,
    `class_list` names those to take. Decoded once, into a memory-mapped file in the cache.
    """

    title = "100 classes of ImageNet, 144x144, colour"
    size = (128_000, 5_000)  # about: ImageNet has 732 to 1,300 training images a class
    classes = 100
    shape = (3, SIDE, SIDE)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # customary for ImageNet
    files = Files(
        title="IMAGE-100", name="image100", names=(".",), contents="train/<class>/<image>, 100 classes, and val or test"
    )
    defaults: ClassVar = {
        "rounds": 500,
        "clients": 20,
        "cohort": 20,
        "epochs": 1,
        "batch_size": 32,
        "lr": 0.001,
        "target": 0.5,
        "normalise": True,
        "partition": {"name": "clusters", "degree": 1},
        "model": {"name": "vgg16"},
    }

    class_list: tuple[str, ...] = ()

    def forms(self) -> Forms:
        return (self.files,)

    def summary(self) -> str:
        return f"about {super().summary()}"

    def read(self) -> Loaded:
        place = obtain(self.forms(), self.source)
        parts = [p for p in ("train", "test", "val") if (place.folder / p).is_dir()][:2]
        split = len(parts) == 2 and parts[0] == "train"
        root = place.folder / "train" if "train" in parts else place.folder
        classes = self._classes(root)
        train = [_images(root / name) for name in classes]
        if split:
            test = [_images(place.folder / parts[1] / name) for name in classes]
        else:
            test = [files[HOLD_OUT - 1 :: HOLD_OUT] for files in train]
            train = [[f for k, f in enumerate(files) if (k + 1) % HOLD_OUT] for files in train]
        for what, found in (("training", train), ("test", test)):
            if not all(found):
                empty = classes[found.index([])]
                raise DataError(f"{place.folder} has no {what} images of class {empty}: add some, or leave it out.")
        files = [f for found in (train, test) for images in found for f in images]
        labels = torch.tensor([label for found in (train, test) for label, images in enumerate(found) for _ in images])
        numbers, cut = torch.arange(len(files)), sum(map(len, train))
        return Loaded(
            train=Split(numbers[:cut], labels[:cut]),
            test=Split(numbers[cut:], labels[cut:]),
            classes=len(classes),
            shape=self.shape,
            source=place.text if split else f"{place.text}; one in {HOLD_OUT} held out for testing",
            scale=1 / 255,
            mean=self.mean,
            std=self.std,
            deviation="" if len(classes) == self.classes else f"{len(classes)} classes, not {self.classes}",
            pixels_of=Stored(decoded(files, SIDE, "image100")),
        )

    def _classes(self, folder: Path) -> list[str]:
        there = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
        if missing := next((name for name in self.class_list if name not in there), None):
            raise DataError(f"{folder} has no class {missing}: dataset.class_list must name folders that are there.")
        if not self.class_list and len(there) != self.classes:
            raise DataError(
                f"{folder} has {len(there)} classes, not {self.classes}: name those to take in dataset.class_list."
            )
        return list(self.class_list) or there


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.suffix.lower() in SUFFIXES)

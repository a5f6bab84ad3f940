from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar
from zlib import error

import numpy as np
import torch

from datamodules.base import DataError, Split
from datamodules.download import Torchvision
from datamodules.idx import IMAGES, LABELS, labelled, opened, read_split
from datamodules.images import _Images
from datamodules.sources import Files, Forms, Place, path_of

FACTS = {  # size, classes, and mean and deviation of the derived training sets below
    "letters": ((124_800, 20_800), 26, (0.1746,), (0.3321,)),
    "byclass": ((697_932, 116_323), 62, (0.1736,), (0.3317,)),
}
DERIVED = {"letters": "letters26-derived", "byclass": "byclass62-derived"}


def _form(split: str, names: tuple[str, ...], **more: Any) -> Files:
    contents = f"emnist-{split}-train-images-idx3-ubyte[.gz] and 3 more, or emnist-{split}.mat, which names writers"
    return Files(
        title=f"EMNIST {split}", name="emnist", names=names, contents=contents, recognise=lambda folder: True, **more
    )


def _idx(prefix: str) -> tuple[str, ...]:
    return tuple(kind.format(f"{prefix}-{part}") for part in ("train", "test") for kind in (IMAGES, LABELS))


@dataclass(frozen=True, kw_only=True)
class EMNIST(_Images):
    """EMNIST (Cohen, Afshar, Tapson, van Schaik 2017), turned upright.

    `letters`: A to Z, cases merged, classes 0-25. `byclass`: 0-9, A-Z, a-z. Where the official files are not found,
    sets derived from them are taken (`letters26-derived-*`, `byclass62-derived-*`), and the record says so. Writers
    are known where the official files in MATLAB's format are found; they come first.
    """

    title = "handwritten letters (split letters) or digits and letters (split byclass), 28x28"
    shape = (1, 28, 28)
    size, classes, mean, std = FACTS["letters"]
    grouped_by = "writer (in the MATLAB files only)"
    defaults: ClassVar = {
        "rounds": 50,
        "clients": 100,
        "cohort": 20,
        "epochs": 3,
        "batch_size": 64,
        "lr": 0.1,
        "target": 0.9,
        "normalise": False,
        "partition": {"name": "dirichlet", "alpha": 0.6},
        "model": {"name": "lenet5"},
    }

    split: str = "letters"

    def __post_init__(self) -> None:
        if self.split not in FACTS:
            raise DataError(f"dataset.split of emnist must be {' or '.join(FACTS)}, not {self.split!r}.")
        for name, value in zip(("size", "classes", "mean", "std"), FACTS[self.split], strict=True):
            object.__setattr__(self, name, value)  # class variables everywhere else
        super().__post_init__()

    @classmethod
    def variants(cls) -> list[EMNIST]:
        return [cls(split=split) for split in FACTS]

    def summary(self) -> str:
        return f"split {self.split}: {super().summary()}"

    def forms(self) -> Forms:
        whole = Torchvision("EMNIST", "EMNIST/raw", options=({"split": self.split},))
        derived = f"derived: {DERIVED[self.split]}"
        return (
            _form(self.split, (f"emnist-{self.split}.mat",)),
            _form(self.split, _idx(f"emnist-{self.split}"), torchvision=whole),
            _form(self.split, _idx(DERIVED[self.split]), deviation=derived),
        )

    def part(self, place: Place, name: str) -> Split:
        first_label = 1 if self.split == "letters" else 0
        if place.files.names[0].endswith(".mat"):
            path = path_of(place.folder, place.files.names[0])
            assert path is not None
            split = _read_mat(path, name, self.classes, first_label)
        else:
            prefix = place.files.names[0].removesuffix(IMAGES.format("-train"))
            split = read_split(place, f"{prefix}-{name}", self.classes, first_label)
        # the files hold every image mirrored at its diagonal
        return replace(split, x=split.x.transpose(1, 2).contiguous())


def _read_mat(path: Path, part: str, classes: int, first_label: int) -> Split:
    """The `train` or `test` part of EMNIST's MATLAB file, in which each image has its writer's number."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        with opened(path) as file:
            content = loadmat(file, variable_names=["dataset"])["dataset"][0, 0][part][0, 0]
        images, labels, writers = (content[field] for field in ("images", "labels", "writers"))
        if images.dtype != np.uint8:
            raise ValueError(f"images are {images.dtype}, not uint8")
        x = torch.from_numpy(images.reshape(-1, 28, 28))  # rows as in C, whatever their order in memory
        y, writer = (torch.from_numpy(column.ravel().astype(np.int64)) for column in (labels, writers))
    except (OSError, EOFError, ValueError, LookupError, TypeError, NotImplementedError, MatReadError, error) as why:
        reason = " ".join(str(why).split())
        raise DataError(f"{path} cannot be read ({reason}): replace it with EMNIST's MATLAB file.") from why
    split = labelled(x, y, (path, path), classes, first_label)
    if len(writer) != len(y):
        raise DataError(f"{path} holds {len(y)} labels, but {len(writer)} writers.")
    return replace(split, groups=torch.unique(writer, return_inverse=True)[1])

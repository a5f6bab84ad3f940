from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from datamodules.base import DataError, Split
from datamodules.download import Torchvision
from datamodules.images import NPZ, _Images, decoded, read_npz
from datamodules.sources import Files, Forms, Place

TRAINING, TEST, TEST_LABELS = "GTSRB/Training", "GTSRB/Final_Test/Images", "GT-final_test.csv"


@dataclass(frozen=True, kw_only=True)
class GTSRB(_Images):
    """German Traffic Sign Recognition Benchmark (Stallkamp et al. 2012), whole images resized to 32x32.

    As arrays: 39,209 training images, of which the 4,410 marked `valid` are left out (the papers' 34,799). As the
    image files that torchvision downloads: its training archive has 26,640, which the record notes.
    """

    title = "German traffic signs, 32x32, colour"
    size = (34_799, 12_630)
    classes = 43
    grouped_by = "track (the film of one sign)"
    shape = (3, 32, 32)
    mean, std = (0.3433, 0.3139, 0.3220), (0.2752, 0.2623, 0.2677)  # of the 34,799
    arrays = Files(title="GTSRB", name="gtsrb", names=NPZ)
    pictures = Files(
        title="GTSRB",
        name="gtsrb",
        names=(TRAINING, TEST, TEST_LABELS),
        torchvision=Torchvision("GTSRB", "gtsrb", options=({"split": "train"}, {"split": "test"})),
    )
    defaults: ClassVar = {
        "rounds": 300,
        "clients": 30,
        "cohort": 6,
        "epochs": 2,
        "batch_size": 48,
        "lr": 0.003,
        "target": 0.85,
        "normalise": False,
        "partition": {"name": "ranges", "n_min": 900, "n_max": 1500, "c_min": 4, "c_max": 12},
        "model": {"name": "fed2a_cnn"},
    }

    def forms(self) -> Forms:
        return (self.arrays, self.pictures)

    def part(self, place: Place, name: str) -> Split:
        if place.files is self.pictures:
            return _test(place.folder) if name == "test" else _training(place.folder / TRAINING)
        x, y, rest = read_npz(place.folder / f"{name}.npz", self.shape, self.classes)
        if name == "test":
            return Split(x, y)
        keep = ~torch.from_numpy(rest.get("valid", np.zeros(len(y), dtype=bool)))
        tracks = torch.from_numpy(rest["track"].astype(np.int64)) if "track" in rest else None
        return _by_track(Split(x, y).take(keep), None if tracks is None else tracks[keep])


def _training(folder: Path) -> Split:
    """<class>/<track>_<frame>.ppm; a track is one sign, filmed while driving up to it."""
    files = sorted(folder.glob("*/*_*.ppm"))
    labels = [int(path.parent.name) for path in files]
    tracks = [int(path.name.partition("_")[0]) for path in files]
    return _split(files, labels, tracks)


def _test(folder: Path) -> Split:
    with (folder / TEST_LABELS).open(newline="") as file:
        rows = [(row["Filename"], int(row["ClassId"])) for row in csv.DictReader(file, delimiter=";")]
    return _split([folder / TEST / name for name, _ in rows], [label for _, label in rows])


def _split(files: list[Path], labels: list[int], tracks: list[int] | None = None) -> Split:
    missing = next((path for path in files if not path.exists()), None)
    if missing or not files:
        raise DataError(f"GTSRB's image files are incomplete: {missing or 'there are none'}; download them again.")
    split = Split(torch.from_numpy(np.load(decoded(files, 32, "gtsrb"))), torch.tensor(labels))
    return _by_track(split, None if tracks is None else torch.tensor(tracks))


def _by_track(split: Split, number: Tensor | None) -> Split:
    """Tracks are numbered within each class."""
    if number is None:
        return split
    alike = split.y * 10_000 + number
    return replace(split, alike=alike, groups=torch.unique(alike, return_inverse=True)[1])

"""MNIST's file format: four files of unsigned bytes, each plain or compressed with gzip."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar

import torch
from torch import Tensor

from datamodules.base import DataError, Dataset, Loaded, Split
from datamodules.sources import SOURCES, Files, how_to_get, locate, obtain, path_of

IMAGES, LABELS = "{}-images-idx3-ubyte", "{}-labels-idx1-ubyte"
NAMES = tuple(kind.format(part) for part in ("train", "t10k") for kind in (IMAGES, LABELS))


@dataclass(frozen=True, kw_only=True)
class _MnistLike(Dataset):
    """28x28 grey images in ten classes; private, so that it is not itself a data set to choose."""

    sources = SOURCES
    size = (60_000, 10_000)
    classes = 10
    files: ClassVar[Files]
    mean: ClassVar[float]
    std: ClassVar[float]

    def available(self) -> str | None:
        place = locate(self.files, self.source)
        return place.text if place else None

    def how_to_get(self) -> str:
        return how_to_get(self.files)

    def load(self) -> Loaded:
        place = obtain(self.files, self.source)
        return Loaded(
            train=read_split(place.folder, "train", (28, 28), classes=10),
            test=read_split(place.folder, "t10k", (28, 28), classes=10),
            classes=10,
            shape=(1, 28, 28),
            source=place.text,
            scale=1 / 255,
            mean=(self.mean,),
            std=(self.std,),
        )


def read_idx(path: Path, dims: int) -> Tensor:
    try:
        with _open(path) as file:
            content = bytearray(file.read())
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read ({error}): replace it with a complete copy.") from error
    start = 4 + 4 * dims
    if len(content) < start or content[:4] != bytes([0, 0, 8, dims]):
        raise DataError(f"{path} is not an IDX file of bytes in {dims} dimensions: replace it with the original.")
    shape = struct.unpack(f">{dims}I", content[4:start])
    if math.prod(shape) == 0 or len(content) != start + math.prod(shape):
        found, promised = len(content) - start, math.prod(shape)
        raise DataError(f"{path} holds {found} bytes where its header promises {promised}: replace it.")
    return torch.frombuffer(content, dtype=torch.uint8, offset=start).reshape(shape)


def read_split(folder: Path, part: str, shape: tuple[int, int], classes: int) -> Split:
    """Images and labels of one part, "train" or "t10k"."""
    images, labels = path_of(folder, IMAGES.format(part)), path_of(folder, LABELS.format(part))
    if images is None or labels is None:
        raise DataError(f"{folder} lacks the images or the labels of {part}.")
    x, y = read_idx(images, 3), read_idx(labels, 1)
    if x.shape[1:] != shape:
        raise DataError(f"{images} holds images of {x.shape[1]}x{x.shape[2]} pixels, not {shape[0]}x{shape[1]}.")
    if len(x) != len(y):
        raise DataError(f"{images} holds {len(x)} images, but {labels} has {len(y)} labels.")
    if int(y.max()) >= classes:
        raise DataError(f"{labels} holds label {int(y.max())}, but labels go from 0 to {classes - 1}.")
    return Split(x, y.long())


def training_starts_with(*labels: int) -> Callable[[Path], bool]:
    """Tells data sets apart that use the same file names. A broken file passes: reading it will say what is wrong."""

    def recognise(folder: Path) -> bool:
        path = path_of(folder, LABELS.format("train"))
        if path is None:
            return False
        try:
            with _open(path) as file:
                return bytes(labels).startswith(file.read(8 + len(labels))[8:])
        except (OSError, EOFError, zlib.error):
            return True

    return recognise


def _open(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]

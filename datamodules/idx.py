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

from datamodules.base import DataError, Split
from datamodules.images import _Images
from datamodules.sources import Files, Forms, Place, path_of, verify

IMAGES, LABELS = "{}-images-idx3-ubyte", "{}-labels-idx1-ubyte"
NAMES = tuple(kind.format(part) for part in ("train", "t10k") for kind in (IMAGES, LABELS))
CONTENTS = f"{NAMES[0]}[.gz] and {len(NAMES) - 1} more"


@dataclass(frozen=True, kw_only=True)
class _MnistLike(_Images):
    """28x28 grey images in ten classes; private, so that it is not itself a data set to choose."""

    size = (60_000, 10_000)
    classes = 10
    shape = (1, 28, 28)
    files: ClassVar[Files]

    def forms(self) -> Forms:
        return (self.files,)

    def part(self, place: Place, name: str) -> Split:
        return read_split(place, "t10k" if name == "test" else name, self.classes)


def read_idx(path: Path, dims: int, sha256: str | None = None) -> Tensor:
    """A file's numbers; `sha256` is what its uncompressed contents must have."""
    try:
        with opened(path) as file:
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
    verify(path, content, sha256)
    return torch.frombuffer(content, dtype=torch.uint8, offset=start).reshape(shape)


def read_split(place: Place, part: str, classes: int, first_label: int = 0) -> Split:
    """Images and labels of the part that file names start with, e.g. "train"; labels count from `first_label`."""
    names = (IMAGES.format(part), LABELS.format(part))
    images, labels = (path_of(place.folder, name) for name in names)
    if images is None or labels is None:
        raise DataError(f"{place.folder} lacks the images or the labels of {part}.")
    x, y = (
        read_idx(path, dims, place.files.sha256.get(name))
        for path, dims, name in zip((images, labels), (3, 1), names, strict=True)
    )
    return labelled(x, y, (images, labels), classes, first_label)


def labelled(x: Tensor, y: Tensor, files: tuple[Path, Path], classes: int, first_label: int) -> Split:
    """Images and labels, which count from `first_label`, of these two files."""
    images, labels = files
    if x.shape[1:] != (28, 28):
        raise DataError(f"{images} holds images of {x.shape[1]}x{x.shape[2]} pixels, not 28x28.")
    if len(x) != len(y):
        raise DataError(f"{images} holds {len(x)} images, but {labels} has {len(y)} labels.")
    for label in (int(y.min()), int(y.max())):
        if not first_label <= label < first_label + classes:
            last = first_label + classes - 1
            raise DataError(f"{labels} holds label {label}, but labels go from {first_label} to {last}.")
    return Split(x, y.long() - first_label)


def training_starts_with(*labels: int) -> Callable[[Path], bool]:
    """Tells data sets apart that use the same file names. A broken file passes: reading it will say what is wrong."""

    def recognise(folder: Path) -> bool:
        path = path_of(folder, LABELS.format("train"))
        if path is None:
            return False
        try:
            with opened(path) as file:
                return bytes(labels).startswith(file.read(8 + len(labels))[8:])
        except (OSError, EOFError, zlib.error):
            return True

    return recognise


def opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]

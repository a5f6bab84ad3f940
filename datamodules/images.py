"""What the sets of small images have in common, and the two forms in which colour images come: arrays and files."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from datamodules.base import DataError, Loaded, Split
from datamodules.cache import Line, cache, workshop
from datamodules.sources import SOURCES, Forms, Place, fetch, how_to_get, locate, obtain
from datamodules.synthetic import _Known

NPZ = ("train.npz", "test.npz")
Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class _Images(_Known):
    """Images of one size, as bytes; private, so that it is not itself a data set to choose."""

    sources = SOURCES
    mean: ClassVar[tuple[float, ...]]
    std: ClassVar[tuple[float, ...]]

    augment: bool = False  # crop and mirror the images of a training batch at random
    resize: int | None = None  # side of the square that the model sees; None: as stored

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resize is not None and self.resize < 1:
            raise DataError(f"dataset.resize={self.resize} is not possible: it must be at least 1, or null.")

    def forms(self) -> Forms:
        """The forms that it may be found in, the best first."""
        raise NotImplementedError

    def part(self, place: Place, name: str) -> Split:
        """The training data (`train`) or the `test` data."""
        raise NotImplementedError

    def found(self) -> str | None:
        place = locate(self.forms(), self.source)
        return place.text if place else None

    def how_to_get(self) -> str:
        return how_to_get(self.forms())

    def fetch(self) -> str:
        return fetch(self.forms()).text

    def load(self) -> Loaded:
        loaded = super().load()
        shape = loaded.shape if self.resize is None else (loaded.shape[0], self.resize, self.resize)
        return replace(loaded, augments=self.augment, resize=self.resize, shape=shape)

    def read(self) -> Loaded:
        place = obtain(self.forms(), self.source)
        train, test = (self.part(place, name) for name in ("train", "test"))
        notes = [place.files.deviation] if place.files.deviation else []
        if (len(train), len(test)) != self.size:
            notes.append("{:,} + {:,} samples, not {:,} + {:,}".format(len(train), len(test), *self.size))
        return Loaded(
            train=train,
            test=test,
            classes=self.classes,
            shape=self.shape,
            source=place.text,
            scale=1 / 255,
            mean=self.mean,
            std=self.std,
            deviation="; ".join(notes),
        )


def read_npz(path: Path, shape: tuple[int, int, int], classes: int) -> tuple[Tensor, Tensor, dict[str, Array]]:
    """Images `features` [n, height, width, channels] as [n, *shape], their `labels`, and every other array."""
    try:
        with np.load(path, allow_pickle=False) as file:
            rest = {name: file[name] for name in file.files if name != "features"}
        images = _channels_first(path)
        labels = rest.pop("labels").astype(np.int64)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path} cannot be read ({reason}): replace it with arrays `features` and `labels`.") from error
    if images.shape[1:] != shape:
        raise DataError(f"{path} holds images of {images.shape[1:]} (channels, height, width), not {shape}.")
    if len(images) != len(labels):
        raise DataError(f"{path} holds {len(images)} images, but {len(labels)} labels.")
    if not (len(labels) and labels.min() >= 0 and labels.max() < classes):
        raise DataError(f"{path} holds labels that are not from 0 to {classes - 1}.")
    return torch.from_numpy(images), torch.from_numpy(labels), rest


def _channels_first(path: Path, rows: int = 100) -> Array:
    """`features` piece by piece, since a second copy of a whole set would be too much."""
    with zipfile.ZipFile(path) as archive, archive.open("features.npy") as file:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = header(file)
        if len(shape) != 4 or fortran or dtype != np.uint8:
            raise ValueError(f"features are {dtype} {shape}, not uint8 in four dimensions")
        n, height, width, channels = shape
        images = np.empty((n, channels, height, width), dtype=np.uint8)
        for first in range(0, n, rows):
            count = min(rows, n - first)
            piece = np.frombuffer(file.read(count * height * width * channels), dtype=np.uint8)
            images[first : first + count] = piece.reshape(count, height, width, channels).transpose(0, 3, 1, 2)
        file.read()  # to the end, where the checksum is compared
    return images


def decoded(files: Sequence[Path], side: int, what: str) -> Path:
    """Image files as one array uint8 [n, 3, side, side] in the cache: each whole image, resized; made once."""
    key = hashlib.sha256()
    for path in files:
        stat = path.stat()
        key.update(f"{path}|{stat.st_size}|{stat.st_mtime_ns}\n".encode())
    name = f"{what}-{side}-{len(files)}-{key.hexdigest()[:16]}.npy"
    target = cache() / name
    if target.exists():
        return target
    with workshop(what) as part:
        if not target.exists():
            line, shape = Line(), (len(files), 3, side, side)
            array = np.lib.format.open_memmap(part / name, mode="w+", dtype=np.uint8, shape=shape)
            with ThreadPoolExecutor() as pool:
                for k, image in enumerate(pool.map(lambda path: _decode(path, side), files)):
                    array[k] = image
                    if k % 100 == 0:
                        line.show(f"{what}: {k:,} of {len(files):,} images decoded")
            line.clear()
            array.flush()
            (part / name).replace(target)
    return target


def _decode(path: Path, side: int) -> Array:
    from PIL import Image

    try:
        with Image.open(path) as image:
            image.draft("RGB", (side, side))  # a JPEG is decoded at the nearest larger size
            small = image.convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} is not an image that can be read ({error}): replace or remove it.") from error
    return np.asarray(small).transpose(2, 0, 1)

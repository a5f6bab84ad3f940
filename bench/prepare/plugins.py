"""A data set and its partition as a run takes them: what they raise is told by the hook, what they give is checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench import own_code
from bench.errors import UserError
from bench.prepare.registry import create
from datamodules.base import Dataset, Loaded, Split
from datamodules.partition import Indices, Partition
from datamodules.samples import Samples

CHUNK = 4096  # samples that are scanned at a time
LARGEST = torch.finfo(torch.float32).max


def require(node: Mapping[str, Any]) -> None:
    """Has the data set of a config be there, or say how to get it."""
    dataset: Dataset = create(node)
    with own_code.calling(dataset, "available"):
        dataset.require()


def load(node: Mapping[str, Any], task: Mapping[str, Any]) -> Loaded:
    """The data set of a config, which can be trained and tested on with its task."""
    dataset: Dataset = create(node)
    with own_code.calling(dataset, "load"):
        loaded = dataset.load()
    check = _Check(f"load of {own_code.target(type(dataset))}", node["name"], create(task).by_class)
    check.loaded(loaded)
    if loaded.pixels_of is not None:
        loaded = replace(loaded, pixels_of=_Told(dataset, loaded.pixels_of))
    check.values(loaded)
    return loaded


def deal(config: Mapping[str, Any], loaded: Loaded, rng: np.random.Generator) -> tuple[list[Indices], str]:
    """The samples of each device, and what is to be said of them, or ""."""
    partition: Partition = create(config["partition"])
    samples = Samples.of(loaded, config["dataset"]["name"])
    with own_code.calling(partition, "deal"):
        parts = partition.split(samples, config["clients"], rng)
    with own_code.calling(partition, "remark"):
        remark = partition.remark(samples, parts)
    if not isinstance(remark, str | None):
        raise UserError(
            f"remark of {own_code.target(type(partition))} returned {type(remark).__name__}: "
            f"it has to be a sentence or None."
        )
    return parts, " ".join(filter(None, (remark, same(parts))))


def same(parts: Sequence[Indices]) -> str:
    """Said where there is no federation to speak of."""
    if len(parts) < 2 or not all(np.array_equal(part, parts[0]) for part in parts[1:]):
        return ""
    return f"Every device holds the same {len(parts[0])} samples."


class _Told:
    """`pixels_of` of a data set."""

    def __init__(self, dataset: Dataset, pixels_of: Any) -> None:
        self.dataset, self.pixels_of = dataset, pixels_of

    def __call__(self, index: Tensor) -> Any:
        with own_code.calling(self.dataset, "pixels_of"):
            return self.pixels_of(index)


class _Check:
    """Refusals name the hook, what it returned and what was expected."""

    def __init__(self, hook: str, name: str, by_class: bool) -> None:
        self.hook, self.name, self.by_class = hook, name, by_class

    def wrong(self, found: str, expected: str) -> UserError:
        return UserError(f"{self.hook} returned {found}: it has to be {expected}.")

    def loaded(self, loaded: Any) -> None:
        """Kinds, shapes and labels."""
        if not isinstance(loaded, Loaded):
            raise self.wrong(type(loaded).__name__, "a datamodules.base.Loaded")
        if type(loaded.classes) is not int or loaded.classes < 1:
            raise self.wrong(f"classes={loaded.classes!r}", "a whole number of at least 1")
        shape = loaded.shape
        if not (isinstance(shape, tuple) and shape and all(type(n) is int and n >= 1 for n in shape)):
            raise self.wrong(f"shape={shape!r}", "a tuple of whole numbers, the shape of one input")
        for which, split in (("train", loaded.train), ("test", loaded.test)):
            self._split(which, split, loaded.classes)
        if (a := list(loaded.train.x.shape[1:])) != (b := list(loaded.test.x.shape[1:])):
            raise self.wrong(f"training samples of shape {a} and test samples of shape {b}", "of one shape")
        self._statistics(loaded)

    def _split(self, which: str, split: Any, classes: int) -> None:
        if not isinstance(split, Split):
            raise self.wrong(f"{which} of type {type(split).__name__}", "a datamodules.base.Split")
        for place, value in (("x", split.x), ("y", split.y), ("alike", split.alike), ("groups", split.groups)):
            if not (isinstance(value, Tensor) or (place in ("alike", "groups") and value is None)):
                raise self.wrong(f"{which}.{place} of type {type(value).__name__}", "a torch.Tensor")
            if value is not None and (value.device.type != "cpu" or value.is_complex() or value.dim() == 0):
                raise self.wrong(
                    f"{which}.{place}, {_form(value)} on {value.device}", "real numbers [n, ...] on the CPU"
                )
        x, y = split.x, split.y
        which_labels = {"train": "training"}.get(which, which)
        if self.by_class:
            self._labels(which_labels, y, classes)
        else:
            self._label_numbers(which_labels, y, classes)
        if not len(x) == len(y) > 0:
            raise self.wrong(f"{len(x)} samples and {len(y)} labels for {which}", "as many of both, at least one")
        for place, numbers in (("alike", split.alike), ("groups", split.groups)):
            if numbers is not None and numbers.shape != y.shape:
                raise self.wrong(f"{which}.{place}, {_form(numbers)}", f"one number for each of {len(y)} samples")
        if split.groups is not None:
            self._groups(which, split.groups)

    def _groups(self, which: str, groups: Tensor) -> None:
        if groups.dtype is not torch.long:
            raise self.wrong(f"{which}.groups, {_form(groups)}", "torch.int64, numbers from 0")
        if len(bad := (groups < 0).nonzero()):
            first = int(bad[0])
            raise self.wrong(f"{which}.groups with {int(groups[first])} for sample {first}", "numbers from 0")

    def _labels(self, which: str, y: Tensor, classes: int) -> None:
        """A label outside the classes would be a place outside a network's outputs."""
        allowed = f"labels are whole numbers from 0 to {classes - 1}"
        if y.dtype is not torch.long or y.dim() != 1:
            numbers = "; task=regression takes real numbers" if y.is_floating_point() and y.dim() == 1 else ""
            form = f"{allowed}, torch.int64 of shape [n]{numbers}"
            raise UserError(f"The {which} labels of {self.name} are {_form(y)}: {form}.")
        bad = ((y < 0) | (y >= classes)).nonzero()
        if len(bad):
            first = int(bad[0])
            raise UserError(f"The {which} sample {first} of {self.name} has the label {int(y[first])}: {allowed}.")

    def _label_numbers(self, which: str, y: Tensor, classes: int) -> None:
        allowed = "with this task labels are real numbers, torch.float32 of shape [n]"
        if not y.is_floating_point() or y.dim() != 1:
            raise UserError(f"The {which} labels of {self.name} are {_form(y)}: {allowed}.")
        if len(bad := (~y.isfinite()).nonzero()):
            first = int(bad[0])
            raise UserError(f"The {which} sample {first} of {self.name} has the label {float(y[first])}: {allowed}.")
        if classes != 1:
            raise self.wrong(f"classes={classes} with labels that are real numbers", "1, the outputs of a model")

    def _statistics(self, loaded: Loaded) -> None:
        if not (_finite(loaded.scale) and loaded.scale):
            raise self.wrong(f"scale={loaded.scale!r}", "a finite number other than 0")
        for name, values in (("mean", loaded.mean), ("std", loaded.std)):
            expected = f"{loaded.shape[0]} finite numbers, one for each channel" + " above 0" * (name == "std")
            if not (isinstance(values, Sequence) and len(values) in {1, loaded.shape[0]} and all(map(_finite, values))):
                raise self.wrong(f"{name}={str(values)[:60]}", expected)
            if name == "std" and (bad := [k for k, value in enumerate(values) if value <= 0]):
                raise self.wrong(f"std[{bad[0]}]={values[bad[0]]}", expected)
        if not (_finite(loaded.y_mean) and _finite(loaded.y_std) and loaded.y_std > 0):
            raise self.wrong(f"y_mean={loaded.y_mean!r} and y_std={loaded.y_std!r}", "finite numbers, y_std above 0")

    def values(self, loaded: Loaded) -> None:
        """What a model would see: of the right shape, and numbers. Bytes are finite as they are."""
        some = loaded.train.x[:2]
        try:
            seen = loaded.inputs(some, normalise=True).shape
        except (RuntimeError, IndexError):
            seen = torch.Size()
        if seen != (len(some), *loaded.shape):
            form = list(loaded.pixels(some).shape[1:])
            raise self.wrong(f"samples of shape {form} and shape={loaded.shape}", "one shape, of as many numbers")
        for which, split in (("training", loaded.train), ("test", loaded.test)):
            for first in range(0, len(split), CHUNK):
                stored = loaded.pixels(split.x[first : first + CHUNK])
                if not stored.is_floating_point():
                    break
                self._numbers(which, stored, first, abs(loaded.scale))

    def _numbers(self, which: str, x: Tensor, first: int, scale: float) -> None:
        low, high = torch.aminmax(x)
        if max(abs(float(low)), abs(float(high))) * scale <= LARGEST:  # false for NaN, too
            return
        x = x.reshape(len(x), -1)
        row, column = (~(x.double().abs() * scale <= LARGEST)).nonzero()[0].tolist()
        value = float(x[row, column])
        raise UserError(
            f"The {which} sample {first + row} of {self.name} has the value {value} at {column}: {self.hook} has to "
            f"return finite numbers, which float32 can hold after scale={scale:g}."
        )


def _form(value: Tensor) -> str:
    return f"{value.dtype} of shape {list(value.shape)}"


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

"""Data that a program gives as objects, as a data set of ours: see `bench.federate`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from bench import given
from bench.errors import UserError
from datamodules.base import DataError, Dataset, Loaded, Split

PAIRS = "a pair (train, test) of torch data sets or of (x, y) arrays, a LightningDataModule, or a data set by name"


@dataclass(frozen=True, kw_only=True)
class Given(Dataset):
    """Data that a program has given to bench.federate."""

    title = "data given by a program"
    defaults: ClassVar[Mapping[str, Any]] = {
        "rounds": 30,
        "clients": 20,
        "cohort": 10,
        "epochs": 2,
        "batch_size": 16,
        "lr": 0.05,
        "target": 0.9,
        "normalise": True,
        "partition": {"name": "dirichlet", "alpha": 0.5},
        "model": {"name": "mlp", "hidden": [64]},
    }

    data: str = ""

    def available(self) -> str | None:
        return "given by the program" if self.load() else None

    def load(self) -> Loaded:
        try:
            loaded: Loaded = given.get(f"{given.PREFIX}{self.data}", "dataset")
        except UserError as error:
            raise DataError(str(error)) from None
        return loaded


def put(dataset: Any) -> tuple[str, list[str]]:
    """Keeps the data; returns their digest, which is the same for the same data, and the keys that labels which are
    real numbers ask for."""
    train, test = (_split(part) for part in _parts(dataset))
    if train.y.dtype != test.y.dtype:
        raise UserError(f"The labels of dataset differ in type: {train.y.dtype} and {test.y.dtype}.")
    if train.x.shape[1:] != test.x.shape[1:] or train.x.dtype != test.x.dtype:
        shapes = " and ".join(f"{list(part.x.shape[1:])} {part.x.dtype}" for part in (train, test))
        raise UserError(f"The training and the test samples of dataset differ in shape or type: {shapes}.")
    digest = hashlib.sha256()
    for tensor in (train.x, train.y, test.x, test.y):
        digest.update(f"{tensor.dtype} {list(tensor.shape)}".encode() + tensor.contiguous().numpy().tobytes())
    name, loaded = digest.hexdigest()[:16], _loaded(train, test)
    given.put(name, loaded)
    half = f"target={loaded.y_std / 2:.4g}"  # of what always answering the mean is off by
    return name, ["task=regression", "partition=iid", half] if train.y.is_floating_point() else []


def _loaded(train: Split, test: Split) -> Loaded:
    scale = 1 / 255 if train.x.dtype == torch.uint8 else 1.0
    x, images = train.x.float() * scale, train.x.ndim == 4
    over = (0, 2, 3) if images else 0 if train.x.ndim == 2 else tuple(range(x.ndim))
    std = x.std(over, correction=0)
    numbers = train.y.is_floating_point()
    return Loaded(
        train=train,
        test=test,
        classes=1 if numbers else int(max(train.y.max(), test.y.max())) + 1,
        shape=tuple(train.x.shape[1:]),
        source="given by a program",
        scale=scale,
        mean=tuple(x.mean(over).reshape(-1).tolist()),
        std=tuple(torch.where(std > 0, std, 1.0).reshape(-1).tolist()),
        y_mean=float(train.y.mean()) if numbers else 0.0,
        y_std=float(train.y.std(correction=0)) or 1.0 if numbers else 1.0,
    )


def _parts(dataset: Any) -> tuple[Any, Any]:
    if hasattr(dataset, "train_dataloader"):
        return _of_module(dataset)
    if not isinstance(dataset, tuple | list) or len(dataset) != 2:
        raise UserError(f"dataset is {type(dataset).__name__}: it has to be {PAIRS}.")
    return dataset[0], dataset[1]


def _of_module(module: Any) -> tuple[Any, Any]:
    """The data sets behind the loaders of a LightningDataModule."""
    module.prepare_data()
    for stage in ("fit", "test"):
        module.setup(stage)
    own = [hook for hook in ("train", "test", "val") if _is_own(module, f"{hook}_dataloader")]
    loaders = [getattr(module, f"{hook}_dataloader")() for hook in own[:2]]
    if own[:1] != ["train"] or len(loaders) < 2 or any(not hasattr(loader, "dataset") for loader in loaders):
        raise UserError(f"{type(module).__name__} gives no loader of training data and one of test data.")
    return loaders[0].dataset, loaders[1].dataset


def _is_own(module: Any, hook: str) -> bool:
    """Lightning's own raise."""
    return getattr(type(module), hook).__module__.partition(".")[0] not in ("pytorch_lightning", "lightning")


def _split(part: Any) -> Split:
    if isinstance(part, tuple | list) and len(part) == 2:
        x, y = (torch.as_tensor(np.asarray(one)) if not isinstance(one, Tensor) else one for one in part)
    elif hasattr(part, "__getitem__") and hasattr(part, "__len__"):
        pairs = [part[k] for k in range(len(part))]
        if not pairs or any(not isinstance(pair, tuple | list) or len(pair) != 2 for pair in pairs[:1]):
            raise UserError(f"A data set of {type(part).__name__} gives no pairs (x, y).")
        x = torch.stack([torch.as_tensor(np.asarray(one)) for one, _ in pairs])
        y = torch.as_tensor([one.item() if hasattr(one, "item") else one for _, one in pairs])
    else:
        raise UserError(f"A part of dataset is {type(part).__name__}: dataset has to be {PAIRS}.")
    if len(x) != len(y) or y.ndim != 1 or len(y) == 0:
        raise UserError(f"dataset has {len(x)} samples and labels of shape {list(y.shape)}: one label a sample.")
    if y.is_complex():
        raise UserError(f"The labels of dataset are {y.dtype}: they have to be whole numbers from 0, or real numbers.")
    y = y.float() if y.is_floating_point() else y.long()
    return Split((x if x.dtype == torch.uint8 else x.float()).detach(), y)

"""Digests of what a run rests on and git does not know: its data as loaded, and the user's own code."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from bench import own_code, trust
from bench.errors import UserError
from datamodules.base import Loaded, Split

Fingerprints = dict[str, dict[str, str]]
SOME = 1000  # images, evenly spread, of a set that is too large to be read whole


def found(config: Mapping[str, Any], loaded: Loaded) -> Fingerprints:
    code = {key: own_code.fingerprint(target) for key, target in trust.targets(config).items()}
    data = {"training": _data(loaded, loaded.train), "test": _data(loaded, loaded.test)}
    if loaded.train.groups is not None:
        data["groups"] = _digest(loaded.train.groups)
    return {"data": data, "code": code}


def changes(config: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """What is not as it was in the run that `config` was recorded by; nothing in one that has no fingerprints."""
    then = config.get("fingerprints") or {"data": {}, "code": {}}
    for key, digest in then["code"].items():
        if now["code"].get(key) != digest:
            target = trust.targets(config).get(key, "fedbench's own now")
            yield f"{key} {target}: the code differs from that of the record"
    for part, digest in then["data"].items():
        if now["data"].get(part) != digest:
            what = part if part == "groups" else f"{part} data"
            yield f"dataset {config['dataset']['name']}: the {what} differ from those of the record"


def refuse_changes(folder: object, config: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """A run must not go on with other data or code than it began with."""
    if gaps := list(changes(config, now)):
        raise UserError(f"{folder} cannot go on ({'; '.join(gaps)}): undo that, or start a new run.")


def _data(loaded: Loaded, split: Split) -> str:
    x = split.x
    if loaded.pixels_of is not None:
        x = loaded.pixels(x[torch.linspace(0, len(x) - 1, min(SOME, len(x))).long()])
    return _digest(x, split.y)


def _digest(*tensors: Tensor) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()

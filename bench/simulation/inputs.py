"""What a hook is given, to see whether it has changed it: the loop owns all state, and a method's hooks are pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import torch
from torch import Tensor

from bench.simulation.returned import Returned

Mark = tuple[int, float]


class Inputs:
    """Marks of all tensors in what is given by name: dataclasses, dictionaries and tensors."""

    def __init__(self, **given: object) -> None:
        self.given = given
        self.before = {place: (value, _mark(value)) for place, value in _tensors(given)}

    def unchanged(self, look: Returned) -> None:
        """Refuses what was written into, added, taken away or replaced."""
        now = dict(_tensors(self.given))
        for place in {**now, **self.before}:  # in order: a tensor may be seen from several places
            old, mark = self.before.get(place, (None, None))
            if now.get(place) is not old or old is None or _mark(old) != mark:
                raise look.changed(place)


def _tensors(value: object, place: str = "") -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        if not value.is_meta:
            yield place, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _tensors(item, f'{place}["{name}"]' if place else str(name))
    elif is_dataclass(value):
        for f in fields(value):
            yield from _tensors(getattr(value, f.name), f"{place}.{f.name}")


def _mark(value: Tensor) -> Mark:
    """Torch counts what is written into a tensor, not what goes through .data or numpy: that moves the sum."""
    total = float(value.sum(dtype=torch.float64))
    return (0 if value.is_inference() else value._version), (0.0 if math.isnan(total) else total)

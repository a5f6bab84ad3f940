"""What devices that were trained will upload and remember, a row each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from algorithms.base import State

NUMBERS = ("steps", "effective_steps", "lr_sum", "loss")


@dataclass(frozen=True)
class Uploads:
    """What the server gets to see."""

    delta: Tensor  # [K, P]
    extra: State
    steps: Tensor  # [K]
    effective_steps: Tensor
    lr_sum: Tensor
    loss: Tensor

    def __len__(self) -> int:
        return len(self.loss)


@dataclass(frozen=True)
class Learned(Uploads):
    CARRIED: ClassVar[tuple[str, ...]] = ("steps", "effective_steps", "lr_sum")

    memory: State  # to be written when the upload arrives
    gradient: Tensor | None  # [K, P], with mail
    end: Tensor | None  # [K, P]: the models themselves, for devices that have to go on from them
    evaluations: Tensor  # [K] long: mini-batch gradients

    @cached_property
    def not_finite(self) -> dict[int, str]:
        """What diverged, of the rows in which something did."""
        sums, losses = self.delta.sum(1).isfinite().tolist(), self.losses
        if all(sums) and all(map(math.isfinite, losses)):
            return {}
        found: dict[int, str] = {}
        for k, (fine, loss) in enumerate(zip(sums, losses, strict=True)):
            if not math.isfinite(loss):
                found[k] = f"its loss is {loss}"
            elif not fine and not finite(self.delta[k]):
                found[k] = "its update is not finite"
        return found

    @cached_property
    def losses(self) -> list[float]:
        found: list[float] = self.loss.tolist()
        return found

    @cached_property
    def computed(self) -> list[int]:
        found: list[int] = self.evaluations.tolist()
        return found

    def take(self, rows: Sequence[int]) -> Learned:
        """Some rows, in this order; all of them without a copy."""
        if list(rows) == list(range(len(self))):
            return self
        index = torch.tensor(list(rows), device=self.loss.device)
        return _combined([self], lambda parts: parts[0][index])

    @staticmethod
    def join(parts: Sequence[Learned]) -> Learned:
        """One below the other."""
        return parts[0] if len(parts) == 1 else _combined(parts, torch.cat)

    @cached_property
    def _numbers(self) -> dict[str, list[float]]:
        return {name: getattr(self, name).tolist() for name in NUMBERS}

    @cached_property
    def _deltas(self) -> tuple[Tensor, ...]:
        return self.delta.unbind()

    @cached_property
    def _extras(self) -> dict[str, tuple[Tensor, ...]]:
        return {name: value.unbind() for name, value in self.extra.items()}

    @staticmethod
    def uploads(places: Sequence[Place]) -> Uploads:
        """These rows of these tables; copied, unless they are a whole table."""
        first = places[0][0]
        whole = len(places) == len(first) and all(table is first for table, _ in places)
        if whole and [k for _, k in places] == list(range(len(first))):
            return first
        return Uploads(
            delta=torch.stack([table._deltas[k] for table, k in places]),
            extra={name: torch.stack([table._extras[name][k] for table, k in places]) for name in first.extra},
            **{name: column([table._numbers[name][k] for table, k in places], first.loss) for name in NUMBERS},
        )

    def state_dict(self, row: int) -> dict[str, Any]:
        """Of one row: with a view a file would hold the whole table. The device's memory has been written."""
        alone = self.take([row])
        state = {f.name: getattr(alone, f.name) for f in fields(alone)}
        return state | {"memory": {}, "gradient": None, "end": None}


Place = tuple[Learned, int]  # a table and a row of it


@dataclass(frozen=True)
class Outcomes:
    """What the loop looks at of rows of several tables, as a table says it of its own."""

    losses: list[float]
    computed: list[int]
    not_finite: dict[int, str]
    memory: Mapping[str, Sequence[Tensor]]

    @staticmethod
    def of(places: Sequence[Place]) -> Outcomes:
        broken = [(n, table.not_finite.get(k)) for n, (table, k) in enumerate(places) if table.not_finite]
        return Outcomes(
            losses=[table.losses[k] for table, k in places],
            computed=[table.computed[k] for table, k in places],
            not_finite={n: what for n, what in broken if what is not None},
            memory={name: [table.memory[name][k] for table, k in places] for name in places[0][0].memory},
        )


def finite(w: Tensor) -> bool:
    """If a sum is, so are its terms; otherwise it may only have overflowed."""
    return math.isfinite(w.sum()) or bool(w.isfinite().all())


def column(values: Sequence[float], like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """[K], through numpy, which takes a third of the time, and where all are the same in no time."""
    if values.count(values[0]) == len(values):
        return like.new_full((len(values),), values[0], dtype=dtype)
    # a copy, in torch's memory: a product's last bits may depend on how it is aligned
    return torch.from_numpy(np.array(values)).to(like.device, dtype or like.dtype, copy=True)


def _combined(parts: Sequence[Learned], how: Callable[[list[Tensor]], Tensor]) -> Learned:
    """The same fields of all parts, tensors or dictionaries of them, made into one."""

    def one(values: list[Any]) -> Any:
        if isinstance(values[0], dict):
            return {name: how([value[name] for value in values]) for name in values[0]}
        return None if values[0] is None else how(values)

    return Learned(**{f.name: one([getattr(part, f.name) for part in parts]) for f in fields(Learned)})

"""What devices that were trained will upload and remember, a row each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar

import torch
from torch import Tensor

from algorithms.base import State

SEEN = ("delta", "steps", "effective_steps", "lr_sum", "loss", "evaluations")


@dataclass(frozen=True)
class Learned:
    CARRIED: ClassVar[tuple[str, ...]] = ("steps", "effective_steps", "lr_sum")

    delta: Tensor  # [K, P]
    extra: State
    memory: State  # to be written when the upload arrives
    gradient: Tensor | None  # [K, P], with mail
    end: Tensor | None  # [K, P]: the models themselves, for devices that have to go on from them
    steps: Tensor  # [K]
    effective_steps: Tensor
    lr_sum: Tensor
    loss: Tensor
    evaluations: Tensor  # [K] long: mini-batch gradients

    def __len__(self) -> int:
        return len(self.loss)

    @cached_property
    def not_finite(self) -> dict[int, str]:
        """What diverged, of the rows in which something did."""
        finite, losses = self.delta.sum(1).isfinite().tolist(), self.losses  # if a sum is, so are its terms
        if all(finite) and all(map(math.isfinite, losses)):
            return {}
        found: dict[int, str] = {}
        for k, (fine, loss) in enumerate(zip(finite, losses, strict=True)):
            if not math.isfinite(loss):
                found[k] = f"its loss is {loss}"
            elif not fine and not bool(self.delta[k].isfinite().all()):  # the sum may only have overflowed
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

    @staticmethod
    def uploads(places: Sequence[tuple[Learned, int]]) -> Learned:
        """What the server gets to see of these rows of these tables, copied once."""
        (first, begin), rows = places[0], [k for _, k in places]
        end = begin + len(rows)
        alike = all(table is first for table, _ in places) and rows == list(range(begin, end))

        def column(of: Callable[[Learned], Tensor]) -> Tensor:
            if not alike:
                return torch.stack([of(table)[k] for table, k in places])
            own = of(first)[begin:end]
            return own if len(own) == len(first) else own.clone()  # whose alignment a product's last bits may depend on

        extra = {name: column(lambda table, name=name: table.extra[name]) for name in first.extra}  # type: ignore[misc]
        numbers = {name: column(attrgetter(name)) for name in SEEN}
        return Learned(extra=extra, memory={}, gradient=None, end=None, **numbers)

    def state_dict(self, row: int) -> dict[str, Any]:
        """Of one row: with a view a file would hold the whole table. The device's memory has been written."""
        return dict(vars(Learned.uploads([(self, row)])))


def _combined(parts: Sequence[Learned], how: Callable[[list[Tensor]], Tensor]) -> Learned:
    """The same fields of all parts, tensors or dictionaries of them, made into one."""

    def one(values: list[Any]) -> Any:
        if isinstance(values[0], dict):
            return {name: how([value[name] for value in values]) for name in values[0]}
        return None if values[0] is None else how(values)

    return Learned(**{f.name: one([getattr(part, f.name) for part in parts]) for f in fields(Learned)})

"""What a hook returned, against what it has to be; a refusal names the hook, what was found and what was expected."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from algorithms.base import LocalRule
from bench.errors import UserError

Shape = Sequence[Any]  # ... at the end stands for any further dimensions


@dataclass(frozen=True)
class Returned:
    """`hook` is its name with that of its class; with `finite` numbers have to be."""

    hook: str
    finite: bool = False
    verb: str = "returned"

    def wrong(self, found: str, expected: str, place: str = "") -> UserError:
        """`found` and `expected` in words; `place` in what was returned."""
        where = f"{place.lstrip('.')} = " if place else ""
        return UserError(f"{self.hook} {self.verb} {where}{found}: it has to be {expected}.")

    def changed(self, place: str) -> UserError:
        return UserError(
            f"{self.hook} changed {place} in place: it has to leave what it is given, and make new tensors."
        )

    def mapping(self, place: str, value: Any) -> None:
        if not (isinstance(value, Mapping) and all(isinstance(name, str) for name in value)):
            raise self.wrong(described(value), "a dictionary with names as keys", place)

    def tensor(
        self,
        place: str,
        value: Any,
        shape: Shape | None,
        dtype: torch.dtype | None,
        device: torch.device,
        finite: bool = False,
    ) -> None:
        fits = isinstance(value, Tensor) and value.device == device and dtype in (None, value.dtype)
        if not fits or not _fits(value.shape, shape):
            form = "" if shape is None else f" of shape [{', '.join('...' if n is ... else str(n) for n in shape)}]"
            kind = "a tensor" if dtype is None else str(dtype)
            raise self.wrong(described(value), f"{kind}{form} on {device}", place)
        if value.requires_grad:
            raise self.wrong("a tensor with a gradient", "a detached one (.detach())", place)
        if finite and self.finite and not value.is_meta and value.is_floating_point():
            bad = (~value.isfinite()).nonzero()
            if len(bad):
                at = bad[0].tolist()
                raise self.wrong(f"{float(value[tuple(at)])} at {at}", "finite, as what it was given is", place)

    def rule(self, rule: Any, w: Tensor) -> None:
        """A LocalRule for devices whose models are w [K, P]."""
        if not isinstance(rule, LocalRule):
            raise self.wrong(described(rule), "a LocalRule")
        each = (len(w),)
        if rule.lr is not None:
            self._coefficient(".lr", rule.lr, each, w, "None or ")
        for name in ("scale", "prox"):
            value = getattr(rule, name)
            if isinstance(value, Tensor) or not _number(value):
                self._coefficient(f".{name}", value, each, w, "a finite number or ")
        if rule.drift is not None:
            self.tensor(".drift", rule.drift, w.shape, w.dtype, w.device, finite=True)
        if rule.mask is not None:
            self.tensor(".mask", rule.mask, w.shape[1:], torch.bool, w.device)
        if not _number(rule.sam) or rule.sam < 0:
            raise self.wrong(described(rule.sam), "a finite number of at least 0", ".sam")

    def _coefficient(self, place: str, value: Any, shape: Shape, w: Tensor, otherwise: str) -> None:
        fits = isinstance(value, Tensor) and value.shape == tuple(shape) and value.is_floating_point()
        if not (fits and value.device == w.device and not value.requires_grad):
            kind = f"{otherwise}a tensor of {shape[0]} numbers, one for each device, on {w.device}"
            raise self.wrong(described(value), kind, place)
        self.tensor(place, value, shape, None, w.device, finite=True)


def described(value: object) -> str:
    """Short, for a sentence."""
    if isinstance(value, Tensor):
        return f"{value.dtype} of shape {list(value.shape)} on {value.device}"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)[:60]
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text and " at 0x" not in text else type(value).__name__


def _fits(found: Shape, shape: Shape | None) -> bool:
    if shape is None:
        return True
    if shape and shape[-1] is ...:
        return tuple(found[: len(shape) - 1]) == tuple(shape[:-1])
    return tuple(found) == tuple(shape)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

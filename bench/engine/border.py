"""What a method hands to an engine, looked at on every call: C would take any address, and torch broadcasts."""

from __future__ import annotations

import torch
from torch import Tensor

from algorithms.base import LocalRule
from bench.errors import UserError


def expect(what: str, value: object, dtype: torch.dtype, *shape: int) -> Tensor:
    """The value, which is such a tensor."""
    if isinstance(value, Tensor) and value.dtype is dtype and value.shape == shape:
        return value
    raise UserError(f"{what} is {_kind(value)}, not {dtype} of shape {list(shape)}.")


def check_rule(rule: object, w: Tensor, whose: str) -> None:
    """A rule for the models w [K, P]; `whose` returned it."""
    if not isinstance(rule, LocalRule):
        raise UserError(f"{whose} returned {_kind(rule)}, not a LocalRule.")
    shape = w.shape
    if rule.drift is not None:
        expect(f"The drift of {whose}", rule.drift, w.dtype, *shape)
    if rule.mask is not None:
        expect(f"The mask of {whose}", rule.mask, torch.bool, shape[1])
    if rule.lr is not None:
        _check_column("lr", rule.lr, shape[0], whose)
    if not isinstance(rule.scale, float):
        _check_column("scale", rule.scale, shape[0], whose)
    if not isinstance(rule.prox, float):
        _check_column("prox", rule.prox, shape[0], whose)
    if not isinstance(rule.sam, float | int):
        raise UserError(f"The sam of {whose} is {_kind(rule.sam)}, not a number.")


def _check_column(name: str, value: object, count: int, whose: str) -> None:
    """A number of each device."""
    if isinstance(value, int) and name != "lr":
        return
    if not isinstance(value, Tensor) or value.shape != (count,) or value.is_complex():
        other = "None" if name == "lr" else "a number"
        raise UserError(f"The {name} of {whose} is {_kind(value)}, not {other} or a tensor of shape [{count}].")


def _kind(value: object) -> str:
    return f"{value.dtype} of shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__

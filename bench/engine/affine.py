"""A LocalRule as the numbers that an engine without autograd folds into its products.

The one rule (kernel.py) without momentum, mask and sam is  w <- w - pull w + shift - rate g  with
rate = lr scale,  pull = lr prox + rate decay,  shift = lr (prox received - drift).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from algorithms.base import Fed, LocalRule
from bench.engine.base import Group, numbers


class AffineRule:
    """One local epoch's rule for all devices of a group; arrays have a number for each device.

    Which terms there are is decided by the rule, never by the devices that happen to be in the group: a device's
    result must not depend on them.
    """

    def __init__(self, group: Group, rule: LocalRule, fed: Fed) -> None:
        self.lr = numbers(fed.lr if rule.lr is None else rule.lr, group)
        self.prox, self.rate = self.lr * numbers(rule.prox, group), self.lr * numbers(rule.scale, group)
        self.momentum, self.decay, self.sam, self.sums = fed.momentum, fed.decay, rule.sam, tuple(group.sums)
        decay = 0.0 if group.m is not None else fed.decay  # with momentum it goes into m
        self.pull = self.prox + self.rate * decay
        self.proximal = isinstance(rule.prox, Tensor) or rule.prox != 0
        self.pulls, self.shifts = self.proximal or decay != 0, self.proximal or rule.drift is not None
        self.mask = None if rule.mask is None or bool(rule.mask.all()) else rule.mask
        self.drift, self.received = rule.drift, group.received
        # what a step cannot do without the gradient as a tensor of its own, and without knowing it unscaled
        self.gradient = bool(self.sums) or self.sam != 0 or self.mask is not None
        self.raw = self.gradient or group.m is not None

    @property
    def vectors(self) -> tuple[str, ...]:
        """The [n, P] that a step needs beside w, m and the sums."""
        masked = () if self.mask is None else ("rate", *(("pull",) if self.pulls else ()))
        return (*masked, *(("shift",) if self.shifts else ()), *(("climbed",) if self.sam else ()))

    def columns(self, devices: Sequence[int], like: Tensor) -> dict[str, Tensor]:
        """[n, 1] each"""
        values = {"rate": self.rate, "pull": self.pull}
        return {name: like.new_tensor(value[list(devices)])[:, None] for name, value in values.items()}

    def fill(self, out: Mapping[str, Tensor], devices: Sequence[int]) -> None:
        """Writes the `vectors` of these devices."""
        for name, value in out.items():
            if name == "shift":
                self.shift(devices, value)
            elif name != "climbed":
                assert self.mask is not None
                torch.mul(self.columns(devices, value)[name], self.mask, out=value)

    def shift(self, devices: Sequence[int], out: Tensor) -> Tensor:
        index = torch.tensor(list(devices), device=out.device)
        if self.proximal:
            prox = out.new_tensor(self.prox[list(devices)])
            torch.mul(self.received.index_select(0, index), prox[:, None], out=out)
        else:
            out.zero_()
        if self.drift is not None:
            lr = out.new_tensor(self.lr[list(devices)])
            out.addcmul_(self.drift.index_select(0, index), lr[:, None], value=-1)
        return out if self.mask is None else out.mul_(self.mask)

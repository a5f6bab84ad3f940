"""The tables of bench/c, field by field, and what a mini-batch leaves in them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from bench.engine.stack import Linear
from bench.engine.stages import Stage

LANES = 16  # samples that lie side by side in maps
TALLEST = 8  # channels that are pooled at a time

LINEAR = np.dtype([(name, np.int64) for name in ("inner", "outer", "relu", "weight", "bias", "inputs", "d")])
DEVICE = np.dtype(
    [(name, np.int64) for name in ("w", "x", "y", "samples", "m", "shift", "last_gradient", "mean_gradient", "epoch")]
    + [(name, np.float64) for name in ("rate", "pull", "loss")]
)
STAGE = np.dtype(
    [
        (name, np.int64)
        for name in (
            *("channels", "height", "width", "outer", "rows", "columns", "weight", "bias"),
            *("down", "across", "step_down", "step_across", "up", "left"),
            *("pool_down", "pool_across", "pool_step_down", "pool_step_across", "high", "wide", "mean", "relu"),
            *("y", "d", "unpooled", "first"),
        )
    ]
)
RULE = np.dtype(
    [(name, np.int64) for name in ("depth", "batch", "size", "numbers", "stages", "linears", "maps")]
    + [(name, np.int64) for name in ("lanes", "room", "back", "mask", "gradient", "climbed")]
    + [(name, np.float64) for name in ("momentum", "decay", "sam")]
)


class Buffers:
    """Of mini-batches of at most `batch` samples."""

    def __init__(self, stages: Sequence[Stage], linears: Sequence[Linear], batch: int) -> None:
        self.kept: list[Tensor] = []
        self.blocks = -(-batch // LANES)
        self.linears = np.concatenate([self._linear(linear, batch) for linear in linears])
        self.stages = np.concatenate([np.zeros(0, STAGE), *[self._stage(stage) for stage in stages]])
        self.rule = np.zeros(1, RULE)
        self.rule["depth"], self.rule["batch"], self.rule["stages"] = len(linears), batch, len(stages)
        self.rule["linears"] = self.linears.ctypes.data
        if stages:
            self.rule["maps"], self.rule["lanes"] = self.stages.ctypes.data, self._maps(stages[0].shape)
            self.rule["room"] = self._room(max(TALLEST * LANES * math.prod(stage.found[1:]) for stage in stages))
            self.rule["back"] = self._room(batch * linears[0].inner)

    def _linear(self, linear: Linear, batch: int) -> np.ndarray:
        row = np.zeros(1, LINEAR)
        row["inner"], row["outer"], row["relu"] = linear.inner, linear.outer, linear.relu
        row["weight"], row["bias"] = linear.weight, -1 if linear.bias is None else linear.bias
        row["inputs"], row["d"] = self._room(batch * linear.inner), self._room(batch * linear.outer)
        return row

    def _stage(self, stage: Stage) -> np.ndarray:
        row = np.zeros(1, STAGE)
        for names, values in {
            ("channels", "height", "width"): stage.shape,
            ("outer", "rows", "columns"): stage.found,
            ("down", "across", "step_down", "step_across"): (*stage.kernel, *stage.stride),
            ("pool_down", "pool_across", "pool_step_down", "pool_step_across"): (*stage.pool[0], *stage.pool[1]),
            ("up", "left", "mean", "relu"): (stage.up, stage.left, stage.mean, stage.relu),
            ("high", "wide"): stage.result[1:],
        }.items():
            for name, value in zip(names, values, strict=True):
                row[name] = value
        row["weight"] = -1 if stage.weight is None else stage.weight
        row["bias"] = -1 if stage.bias is None else stage.bias
        row["y"], row["d"] = self._maps(stage.result), self._maps(stage.result)
        if stage.pools:
            row["unpooled"], row["first"] = self._maps(stage.found), self._maps(stage.result, torch.int32)
        return row

    def _maps(self, shape: tuple[int, int, int], dtype: torch.dtype = torch.float32) -> int:
        return self._room(self.blocks * LANES * math.prod(shape), dtype)

    def _room(self, numbers: int, dtype: torch.dtype = torch.float32) -> int:
        self.kept.append(torch.empty(numbers, dtype=dtype, device="cpu"))
        return self.kept[-1].data_ptr()

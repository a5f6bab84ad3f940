"""How many workers a run gets: a static rule of the sizes, never of the method."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from bench.engine import ray
from bench.simulation.schedule import Rules

PER_STEP, PER_NUMBER = 4e-6, 5e-11  # seconds of a local step in C, measured: by itself, and per parameter and sample
# seconds of training between two results that the loop waits for; measured: two processes gain from here
WORTHWHILE = 0.01


def workers(config: Mapping[str, Any], size: int, samples: Sequence[int], plan: Rules, device: torch.device) -> int:
    """`size` of the model in numbers, `samples` of each device."""
    asked, address = config["engine"]["workers"], config["engine"]["address"]
    if device.type != "cpu":
        return 1
    most = min(plan.schedule.concurrency, plan.batch or plan.schedule.concurrency)
    if asked is not None:
        return int(min(asked, most))
    worthwhile = address != "local" or most * _job_seconds(config, size, samples) >= WORTHWHILE
    return min(_cores(address), most) if worthwhile else 1


def _job_seconds(config: Mapping[str, Any], size: int, samples: Sequence[int]) -> float:
    """Of a device with the mean number of samples, at least."""
    mean, batch = sum(samples) / len(samples), config["batch_size"]
    passes = config["epochs"] if config["local_unit"] == "epoch" else config["epochs"] * batch / mean
    return float(passes * (mean / batch * PER_STEP + mean * size * PER_NUMBER))


def _cores(address: str) -> int:
    if address == "local":
        if multiprocessing.current_process().daemon:  # it may not have children
            return 1
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ray.cores(address)

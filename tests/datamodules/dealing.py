"""Samples to deal, and what holds for every partition."""

import numpy as np
import torch

from datamodules.base import Split
from datamodules.samples import Samples


def samples(labels, groups=None, x=None, name="mine"):
    labels = np.asarray(labels, dtype=np.int64)
    x = torch.zeros(len(labels), 1, dtype=torch.uint8) if x is None else torch.as_tensor(x)
    groups = None if groups is None else torch.as_tensor(groups)
    return Samples(Split(x, torch.from_numpy(labels), groups=groups), name)


def split(partition, labels, clients, seed=0):
    """The parts of samples, or of what has these labels only, after everything that holds always was checked."""
    given = labels if isinstance(labels, Samples) else samples(labels)
    parts = partition.split(given, clients, np.random.default_rng(seed))
    assert len(parts) == clients and all(len(part) for part in parts)
    assert all(part.dtype == np.int64 and (np.diff(part) > 0).all() for part in parts)
    everything = np.concatenate(parts)
    if not getattr(partition, "overlap", False):
        assert len(np.unique(everything)) == len(everything), "a sample went to two clients"
    assert everything.min() >= 0 and everything.max() < len(given)
    for part, again in zip(parts, partition.split(given, clients, np.random.default_rng(seed)), strict=True):
        assert (part == again).all()
    return parts


def sizes(parts):
    return np.array([len(part) for part in parts])

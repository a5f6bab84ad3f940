"""Named random streams: every method sees the same partition, cohorts, batches and stragglers."""

from __future__ import annotations

import zlib
from functools import lru_cache

import numpy as np


def stream(seed: int, purpose: str, *ids: int) -> np.random.Generator:
    """The generator that belongs to (seed, purpose, ids), whatever else was drawn before."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, zlib.crc32(purpose.encode()), *ids])))


@lru_cache(maxsize=2**17)
def constant(seed: int, purpose: str, *ids: int) -> float:
    """The first number of that stream: what is drawn once and asked for again and again."""
    return float(stream(seed, purpose, *ids).random())

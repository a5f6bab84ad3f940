"""Named random streams: every method sees the same partition, cohorts, batches and stragglers."""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from numpy.random.bit_generator import ISeedSequence

from bench.compiled import accepted, library, pointer

Words = npt.NDArray[np.uint32]
Numbers = npt.NDArray[np.int64]


def stream(seed: int, purpose: str, *ids: int) -> np.random.Generator:
    """The generator that belongs to (seed, purpose, ids), whatever else was drawn before."""
    numbers = (seed, zlib.crc32(purpose.encode()), *ids)
    words = np.array([word for number in numbers for word in _words(number)], dtype=np.uint32)  # as numpy itself would
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(cast(Any, words))))


def streams(seed: int, purpose: str, ids: Sequence[Sequence[int]]) -> list[np.random.Generator]:
    """stream(seed, purpose, *ids) for many ids below 2^32 at once, at a fifth of the time."""
    return [np.random.Generator(np.random.PCG64(cast(Any, _Ready(state)))) for state in _seeds(seed, purpose, ids)]


def shuffles(
    seed: int, purpose: str, ids: Sequence[Sequence[int]], numbers: Sequence[Numbers], times: Sequence[int]
) -> list[list[Numbers]]:
    """Each of these streams shuffles copies of its numbers: below 2^32 of them, so many times. By an algorithm of our
    own, in C where that was built (bench/c/shuffle.c) and else here, to the same bits: numpy does not promise its."""
    seeds, built = _seeds(seed, purpose, ids), library()
    if isinstance(built, str):
        drawn = zip(map(_halves, seeds), numbers, times, strict=True)
        return [[_shuffled(halves, own) for _ in range(count)] for halves, own, count in drawn]
    lengths, counts = (np.array(values, dtype=np.int64) for values in ([len(own) for own in numbers], times))
    shuffled = np.empty(int(lengths @ counts), dtype=np.int64)
    held, begins, rows, size = np.concatenate(numbers), np.cumsum(lengths) - lengths, len(seeds), ctypes.c_int64
    given = pointer(seeds, np.uint64, rows, 4), pointer(held, np.int64, len(held)), size(len(held))
    takes = [pointer(column, np.int64, rows) for column in (begins, lengths, counts)]
    room = pointer(shuffled, np.int64, len(shuffled)), size(len(shuffled))
    accepted(built.shuffles(size(rows), *given, *takes, *room))
    ends = np.cumsum(np.repeat(lengths, counts)).tolist()
    parts = map(shuffled.__getitem__, map(slice, [0, *ends[:-1]], ends))
    return [list(islice(parts, count)) for count in times]


def _halves(state: npt.NDArray[np.uint64]) -> Iterator[int]:
    """32 bits at a time, the lower half of PCG64's 64 first."""
    bits = np.random.PCG64(cast(Any, _Ready(state)))
    while True:
        for value in bits.random_raw(64).tolist():
            yield value & 0xFFFFFFFF
            yield value >> 32


def _shuffled(halves: Iterator[int], numbers: Numbers) -> Numbers:
    """From the last place on, each is swapped with one up to it, drawn with as many bits as that takes until it is."""
    copy = numbers.tolist()
    for i in range(len(copy) - 1, 0, -1):
        bits = (1 << i.bit_length()) - 1
        j = next(half for half in map(bits.__and__, halves) if half <= i)
        copy[i], copy[j] = copy[j], copy[i]
    return np.array(copy, dtype=np.int64)


def _seeds(seed: int, purpose: str, ids: Sequence[Sequence[int]]) -> npt.NDArray[np.uint64]:
    entropy = [*_words(seed), *_words(zlib.crc32(purpose.encode()))]
    rows = np.asarray(ids, dtype=np.uint32)
    return _states([np.full(len(rows), word, dtype=np.uint32) for word in entropy] + list(rows.T))


class _Ready(ISeedSequence):
    """A seed sequence whose words are known."""

    def __init__(self, state: npt.NDArray[np.uint64]) -> None:
        self.state = state

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> npt.NDArray[np.uint64]:
        return self.state


def _words(number: int) -> list[int]:
    """Little-endian 32-bit words, as numpy's SeedSequence takes an int."""
    words = [number & 0xFFFFFFFF]
    while number := number >> 32:
        words.append(number & 0xFFFFFFFF)
    return words


def _states(words: Sequence[Words]) -> npt.NDArray[np.uint64]:
    """What SeedSequence(words of each column).generate_state(4, uint64) gives, a row each: numpy's documented hash
    (O'Neill's seed_seq_fe), which it promises never to change."""
    constant = 0x43B0D7E5

    def hashed(value: Words, factor: int) -> Words:
        nonlocal constant
        value = value ^ np.uint32(constant)
        constant = constant * factor & 0xFFFFFFFF
        value = value * np.uint32(constant)
        return value ^ (value >> np.uint32(16))

    def mixed(a: Words, b: Words) -> Words:
        value: Words = a * np.uint32(0xCA01F9DD) - b * np.uint32(0x4973F715)
        return value ^ (value >> np.uint32(16))

    padded = [*words, *[np.zeros_like(words[0])] * (4 - len(words))]
    pool = [hashed(word, 0x931E8875) for word in padded[:4]]
    for source in range(4):
        for target in range(4):
            if source != target:
                pool[target] = mixed(pool[target], hashed(pool[source], 0x931E8875))
    for word in padded[4:]:
        for target in range(4):
            pool[target] = mixed(pool[target], hashed(word, 0x931E8875))
    constant = 0x8B51F9DD
    out = np.stack([hashed(pool[i % 4], 0x58F38DED) for i in range(8)], 1)
    return np.ascontiguousarray(out).astype("<u4").view("<u8").astype(np.uint64)


@lru_cache(maxsize=2**17)
def constant(seed: int, purpose: str, *ids: int) -> float:
    """The first number of that stream: what is drawn once and asked for again and again."""
    return float(stream(seed, purpose, *ids).random())

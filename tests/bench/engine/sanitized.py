"""Calls of the C library with random shapes, for a process in which a sanitizer watches it: LIBRARY SEED CALLS.

Every array is an allocation of its own and ends where its numbers do, so that one number too far is seen."""

import ctypes
import sys
from itertools import pairwise
from math import prod
from pathlib import Path

import numpy as np

from bench.compiled import accepted, load, pointer
from bench.engine.buffers import DEVICE, RULE, Buffers
from bench.engine.stack import Linear
from bench.engine.stages import Stage

WIDTHS = [1, 2, 3, 5, 15, 16, 17, 31, 32, 33, 47, 64, 65, 100]


class Exact(Buffers):
    """Whose arrays begin and end anywhere."""

    def __init__(self, stages, linears, batch, floats):
        self.floats = floats
        super().__init__(stages, linears, batch)

    def _room(self, numbers, dtype=None):
        return self.floats(numbers)


class Call:
    """Devices with models of their own, under a rule that may have any of its terms."""

    def __init__(self, rng, maps):
        self.rng, self.kept, self.size = rng, [], 0
        batch, bias = int(rng.choice([1, 2, 3, 7, 10, 16, 17, 33])), rng.random() < 0.7
        if maps:
            stages = [self.stage(shape := tuple(rng.integers(1, 10, 3).tolist()))]
            while rng.random() < 0.5:
                stages.append(self.stage(stages[-1].result))
        else:
            stages, shape = [], (int(rng.choice(WIDTHS)),)
        units = [prod(stages[-1].result if stages else shape), *rng.choice(WIDTHS, rng.integers(1, 5)).tolist()]
        linears = []
        for inner, outer in pairwise(units):
            end = self.size + inner * outer
            linears.append(Linear(inner, outer, self.size, end if bias else None, bool(rng.random() < 0.7)))
            self.size = end + bias * outer
        self.buffers = Exact(stages, linears, batch, self.floats)
        self.linears, self.rule = self.buffers.linears, self.buffers.rule
        sam, masked, momentum, summed, shifted = rng.random(5) < 0.4
        raw = sam or masked or momentum or summed or rng.random() < 0.2
        self.rule["size"], self.rule["numbers"] = self.size, prod(shape)
        self.rule["mask"] = self.floats(self.size) if masked else 0
        self.rule["gradient"] = self.floats(self.size) if raw else 0
        self.rule["climbed"] = self.floats(self.size) if sam else 0
        self.rule["sam"], self.rule["momentum"], self.rule["decay"] = 0.1 * sam, 0.9 * momentum, rng.choice([0, 0.01])
        self.devices = np.zeros(rng.integers(1, 4), DEVICE)
        for row in self.devices:
            samples = int(rng.choice([0, 1, batch - 1, batch, batch + 1, 3 * batch - 1, 3 * batch]))
            labels = rng.integers(0, units[-1], samples)
            self.kept.append(labels)
            row["w"], row["x"], row["y"] = (
                self.floats(self.size),
                self.floats(samples * prod(shape)),
                labels.ctypes.data,
            )
            row["samples"], row["rate"], row["pull"] = samples, 0.1, rng.choice([0, 0.01])
            row["m"] = self.floats(self.size) if momentum else 0
            row["shift"] = self.floats(self.size) if shifted else 0
            for name in ("last_gradient", "mean_gradient", "epoch"):
                row[name] = self.floats(self.size) if summed and rng.random() < 0.6 else 0

    def stage(self, shape):
        """Kernels, strides and paddings of any kind, as long as a pixel is left."""
        rng, found, keys = self.rng, shape, {}
        if rng.random() < 0.8:
            kernel, stride, margins = rng.integers(1, 8, 2), rng.integers(1, 4, 2), rng.integers(0, 5, (2, 2))
            full = margins.sum(0) + shape[1:]
            kernel = np.minimum(kernel, full)
            found = (int(rng.choice([1, 2, 3, 5, 8, 9, 13])), *((full - kernel) // stride + 1).tolist())
            keys = {"kernel": tuple(kernel), "stride": tuple(stride), "up": margins[0, 0], "left": margins[0, 1]}
            keys["weight"] = self.size
            self.size += found[0] * shape[0] * int(kernel.prod())
            if rng.random() < 0.7:
                keys["bias"], self.size = self.size, self.size + found[0]
        if rng.random() < 0.7:
            window = np.minimum(rng.integers(1, 4, 2), found[1:])
            keys["pool"], keys["mean"] = (tuple(window), tuple(rng.integers(1, 4, 2))), rng.random() < 0.3
        return Stage(shape, found, relu=rng.random() < 0.6, **keys)

    def floats(self, count):
        """Ends with the allocation; begins wherever a float may."""
        skipped = int(self.rng.choice([0, 1, 3]))
        self.kept.append(self.rng.normal(size=count + skipped).astype(np.float32))
        return self.kept[-1].ctypes.data + 4 * skipped

    def train(self, library, longest):
        tables = pointer(self.rule, RULE, 1), pointer(self.devices, DEVICE, len(self.devices))
        accepted(library.train(*tables, ctypes.c_int64(len(self.devices)), longest))

    def answer(self, library, longest):
        device, classes = self.devices[-1], int(self.linears["outer"][-1])
        room, rule = self.floats(int(device["samples"]) * classes), pointer(self.rule, RULE, 1)
        places = (int(device[name]) for name in ("w", "x", "samples"))
        accepted(library.answer(rule, *map(ctypes.c_int64, (*places, room)), longest))


def shuffle(library, rng):
    rows, size = int(rng.integers(1, 5)), ctypes.c_int64
    lengths, times = rng.choice([0, 1, 2, 3, 17, 100], rows), rng.integers(0, 4, rows)
    begins, held, room = np.cumsum(lengths) - lengths, int(lengths.sum()), int(lengths @ times)
    seeds, numbers, out = rng.integers(0, 2**63, (rows, 4)).astype(np.uint64), np.arange(held), np.zeros(room, np.int64)
    given = pointer(seeds, np.uint64, rows, 4), pointer(numbers, np.int64, held), size(held)
    columns = [pointer(column, np.int64, rows) for column in (begins, lengths, times)]
    accepted(library.shuffles(size(rows), *given, *columns, pointer(out, np.int64, room), size(room)))


def stray(library, rng, longest):
    """A label whose place is the first one behind the last layer's buffer."""
    call = Call(rng, maps=False)
    while not call.devices["samples"][-1]:
        call = Call(rng, maps=False)
    labels = next(part for part in call.kept if part.ctypes.data == call.devices["y"][-1])
    batch = int(call.rule["batch"][0])
    labels[-1] = (batch - (len(labels) - 1) % batch) * call.linears["outer"][-1]
    try:
        call.train(library, longest)
    except ValueError as error:
        assert "a label that is no class" in str(error)
        return
    raise AssertionError("it was trained on")


if __name__ == "__main__":
    rng, library = np.random.default_rng(int(sys.argv[2])), load(Path(sys.argv[1]))
    for number in range(int(sys.argv[3])):
        for maps in (False, True):
            call = Call(rng, maps)
            call.train(library, (16, 32, 64)[number % 3])
            call.answer(library, (16, 32, 64)[number % 3])
        stray(library, rng, (16, 32, 64)[number % 3])
        shuffle(library, rng)
    print("clean")

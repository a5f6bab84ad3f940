"""How much memory a set of 60,000 small images takes while it is loaded; in a process of its own, for its peak."""

import pickle
import time

import numpy as np
import pytest

from tests.running import printed

LIMIT = 400e6  # bytes over what the process had before

MEASURE = """
import hashlib, pathlib, sys, time
from dataclasses import dataclass
from datamodules.cifar import CIFAR10
from datamodules.sources import Place

def peak():  # of this process alone; getrusage's is not below that of the one that started it
    text = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(text.split("VmHWM:")[1].split()[0])

{prepare}
before, begin = peak(), time.process_time()
{load}
print(peak() - before, time.process_time() - begin, len(train), len(test), train.x.dtype, int(train.y[-1]))
"""
PUBLISHED = (
    "folder = pathlib.Path(sys.argv[1])\n"
    "digest = lambda name: hashlib.md5((folder / name).read_bytes()).hexdigest()\n"
    "names = [[f'data_batch_{k}' for k in range(1, 6)], ['test_batch']]\n"
    "CIFAR10.md5 = tuple({name: digest(name) for name in part} for part in names)"
)


def measured(prepare, load, *argv):
    code = MEASURE.format(prepare=prepare, load=load)
    peak, seconds, train, test, dtype, label = printed("-c", code, *argv).split()
    assert (train, test, dtype) == ("50000", "10000", "torch.uint8")
    return float(peak), float(seconds), int(label)


def test_the_published_files_of_cifar10_are_loaded_without_a_second_copy(tmp_path):
    for k, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
        content = {"data": np.full((10_000, 3072), k, dtype=np.uint8), "labels": [k] * 10_000}
        (tmp_path / name).write_bytes(pickle.dumps(content))
    load = "train, test = (CIFAR10()._unpickle(folder, part) for part in CIFAR10.md5)\n"
    load += "assert [int(train.x[10_000 * k + 5, 2, 31, 31]) for k in range(5)] == [0, 1, 2, 3, 4]"
    peak, _, label = measured(PUBLISHED, load, str(tmp_path))
    assert 150e6 < peak < 0.75 * LIMIT and label == 4


@pytest.mark.data
def test_cifar10_is_loaded_from_the_cache_in_two_seconds_and_400_MB():
    begin = time.monotonic()
    peak, seconds, _ = measured("", "loaded = CIFAR10().load()\ntrain, test = loaded.train, loaded.test")
    assert peak < LIMIT
    assert seconds < 2, f"{time.monotonic() - begin:.1f} s with the imports"

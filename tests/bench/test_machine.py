"""How the process is set for a run, and that it is as before afterwards."""

import gc
import subprocess
import sys

import pytest

from bench.machine import rare_collections

FAULTS = """
import ctypes, resource
from bench.machine import keep_memory
if {kept}: keep_memory()
library = ctypes.CDLL(None)
library.malloc.restype, library.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
def block():
    places = [library.malloc(2**23) for _ in range(4)]
    for place in places: ctypes.memset(place, 1, 2**23)
    for place in places: library.free(place)
for _ in range(3): block()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5): block()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mallopt is glibc's")
def test_memory_that_every_round_needs_is_not_given_back():
    def faults(kept):
        return int(
            subprocess.run([sys.executable, "-c", FAULTS.format(kept=kept)], capture_output=True, check=True).stdout
        )

    assert faults(True) < 100 < faults(False)


def test_garbage_is_looked_for_rarely_and_then_as_before():
    before = gc.get_threshold()
    with rare_collections():
        assert gc.get_threshold()[0] > before[0] and gc.get_freeze_count() > 0
    assert gc.get_threshold() == before and gc.get_freeze_count() == 0
    with pytest.raises(ZeroDivisionError), rare_collections():
        1 / 0  # noqa: B018
    assert gc.get_threshold() == before

"""How the C library is set for a run."""

import subprocess
import sys

import pytest

FAULTS = """
import ctypes, resource
from bench.prepare.allocator import keep_memory
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

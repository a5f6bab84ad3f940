"""The C library under AddressSanitizer and UndefinedBehaviorSanitizer, and mutants of it that they must find."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench import compiled
from tests.running import ROOT

GCC = shutil.which("gcc")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(GCC is None and "FEDBENCH_COMPILER" not in os.environ, reason="there is no gcc"),
]
FLAGS = ["-g", "-O1", "-Wno-psabi", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-shared", "-fPIC"]


def watched(sources, calls, seed=0):
    """What a process ends with that makes random calls of what these sources compile to."""
    subprocess.run([GCC, *FLAGS, *map(str, sorted(sources.glob("*.c"))), "-o", "watched.so"], check=True)
    runtime = subprocess.run([GCC, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout
    env = {"LD_PRELOAD": runtime.strip(), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": str(ROOT)}
    words = [sys.executable, str(Path(__file__).with_name("sanitized.py")), str(Path("watched.so").absolute())]
    words += [str(seed), str(calls)]
    return subprocess.run(
        words, env=os.environ | env | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=600
    )


def test_calls_of_random_shapes_are_clean():
    """Ragged last batches, one sample, one class, one device, one layer, every term, every length of vectors."""
    done = watched(compiled.SOURCES, 3000)
    assert done.returncode == 0 and done.stdout == "clean\n", done.stderr[-3000:]


MUTANTS = {
    "a vector too far": ("steps.h", "(; i + LANES <= n; i += LANES)", "(; i <= n; i += LANES)"),
    "a bias too far": ("steps.h", "o < at->outer; o++) to[at", "o <= at->outer; o++) to[at"),
    "a parameter too far": ("steps.h", "k < size; k++) w[k] -= rate", "k <= size; k++) w[k] -= rate"),
    "a tap too far": ("geometry.h", "return end < axis->taps ? end : axis->taps;", "return axis->taps;"),
    "a line too far": ("maps.h", "left / at->step_down + 1", "left / at->step_down + 2"),
    "a sample too far": ("maps.h", "to[i * LANES + b] = b < n ?", "to[i * LANES + b] = b <= n ?"),
    "a bias of a map too far": (
        "maps.h",
        "o < at->outer; o++) {\n        vec sum",
        "o <= at->outer; o++) {\n        vec sum",
    ),
    "labels unseen": ("dense.c", "if (outside) return", "if (0) return"),
    "a number too far": ("shuffle.c", "i = lengths[r] - 1;", "i = lengths[r];"),
    "bits too far": ("shuffle.c", "(-turn & 63)", "(64 - turn)"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name, tmp_path):
    file, old, new = MUTANTS[name]
    sources = shutil.copytree(compiled.SOURCES, tmp_path / "c")
    text = (sources / file).read_text()
    assert old in text
    (sources / file).write_text(text.replace(old, new))
    done = watched(sources, 300)
    found = "AddressSanitizer" in done.stderr or "runtime error" in done.stderr
    assert done.returncode != 0 and found, done.stderr[-3000:]

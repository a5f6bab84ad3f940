"""How tests run commands: in this process, which takes no seconds of importing, or as a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

from bench.main import command
from bench.record import read_all

ROOT = Path(__file__).parents[1]


def bench(*words):
    """The record of the one run that these words of a command line make."""
    before = {run.folder for run in read_all(Path("runs"))} if Path("runs").exists() else set()
    assert command([*words, "logger=none"]) == 0
    (new,) = [run for run in read_all(Path("runs")) if run.folder not in before]
    return new


def process(*words, root=ROOT, **options):
    """`python WORDS` by the code of `root`, in the folder that the test is in; returned when it has ended."""
    words = [str(root / word) if word == "bench.py" else word for word in words]
    env = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *words], **{"env": env, "capture_output": True, "text": True, **options})


def printed(*words, **options):
    """What a process prints that ends well."""
    done = process(*words, **options)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout

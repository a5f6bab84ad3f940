"""Counts the instructions of one round of three workloads of `make speed`, and fails on more than a tenth above
instructions.csv; --update writes it. What else the machine does changes seconds, and no count.

Valgrind's Callgrind counts them, of Python, of torch and of bench/c, from the second round on: the processor's own
counters, which `perf stat` would read, are not there in a virtual machine. Callgrind knows AVX2 and no AVX-512, so what
is counted is the kernels' AVX2 form.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

LIMITS = Path(__file__).with_suffix(".csv")
MORE = 1.1
SIZES = {  # of the workloads; Valgrind works fused products and sums out in software, two million a second
    "digits_1000": {},
    "fmnist_mlp": {"clients": 2, "steps": 10},
    "emnist_lenet": {"clients": 2, "steps": 1},
}
SWITCH = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void end(const char *name) { CALLGRIND_STOP_INSTRUMENTATION; CALLGRIND_DUMP_STATS_AT(name); }
"""


def rounds(switch: Path) -> None:
    """Under Callgrind: each workload's second round, counted. The first one fills what is kept from round to round."""
    import ctypes
    import gc

    import torch

    from algorithms.base import Algorithm
    from bench.speed.variants import auto, federated
    from bench.speed.work import WORKLOADS, Data

    counting = ctypes.CDLL(str(switch))
    torch.set_num_threads(1)
    for name, sizes in SIZES.items():
        load = replace(WORKLOADS[name], **sizes)
        make = federated(load, Data(load), auto, Algorithm())
        make.run()
        gc.collect()
        counting.begin()
        make.run()
        counting.end(name.encode())


def count() -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        source, switch, out = (Path(folder, name) for name in ("switch.c", "switch.so", "out"))
        source.write_text(SWITCH)
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", switch, source], check=True)
        valgrind = ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
        env = os.environ | {"PYTHONPATH": str(LIMITS.parents[1]), "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        subprocess.run([*valgrind, sys.executable, __file__, "--under", switch], check=True, env=env)
        texts = [path.read_text() for path in Path(folder).glob("out.*")]
    found = [re.search(r"^desc: Trigger: Client Request: (\w+)$.*^totals: (\d+)$", text, re.M | re.S) for text in texts]
    return {match[1]: int(match[2]) for match in found if match}


def main() -> int:
    counts = count()
    assert counts.keys() == SIZES.keys(), counts
    if sys.argv[1:] == ["--update"]:
        with LIMITS.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([("workload", "instructions"), *sorted(counts.items())])
    with LIMITS.open(newline="") as file:
        before = {row["workload"]: int(row["instructions"]) for row in csv.DictReader(file)}
    for name, now in counts.items():
        print(f"{name:13} {now / 1e6:9,.1f} million instructions, {now / before[name]:.3f} of instructions.csv")
    return int(any(now > MORE * before[name] for name, now in counts.items()))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--under"]:
        rounds(Path(sys.argv[2]))
    else:
        sys.exit(main())

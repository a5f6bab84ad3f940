"""Where a command line begins: bench.py in a checkout, `fedbench` where it is installed. Nothing heavy is imported."""

from __future__ import annotations

import gc
import resource
import sys
from importlib.util import find_spec
from typing import NoReturn


def start() -> NoReturn:
    if not (find_spec("hydra") and find_spec("torch")):
        print(
            "fedbench is not installed here: `make bench` does that once; then `. .venv/bin/activate` "
            "and `python bench.py ...` run it.",
            file=sys.stderr,
        )
        sys.exit(2)
    if 0 <= (limit := resource.getrlimit(resource.RLIMIT_AS)[0]) < 2**30:  # some libraries hang when they do not fit
        print(f"error: ulimit -v leaves {limit / 2**20:.0f} MB of addresses: 1024 MB are the least.", file=sys.stderr)
        sys.exit(2)
    gc.disable()  # what is imported stays: to look through it time and again is a tenth of the start
    from bench.main import main

    gc.freeze()
    gc.enable()
    main()

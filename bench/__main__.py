"""Small tools around a benchmark: python -m bench VERB."""

from __future__ import annotations

import sys
from importlib import import_module

from bench.errors import guarded, program, unknown
from datamodules.base import DataError

VERBS = {
    "partition": (
        "bench.commands.partition",
        "plot how a data set is dealt to the clients: labels, distance from the whole",
    ),
    "replay": ("bench.commands.replay", "re-run a record and say whether the weights are the same, bit for bit"),
    "timeline": (
        "bench.commands.timeline",
        "a picture of who trained, transmitted and waited in a run, on the virtual clock",
    ),
    "speed": ("bench.speed.command", "how fast local training is here, against a plain loop and other simulators"),
}


def main(argv: list[str]) -> int:
    return guarded(lambda: _verb(argv), DataError)


def _verb(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print("python -m bench VERB [options]\n")
        print("\n".join(f"  {verb:10} {text}" for verb, (_, text) in VERBS.items()))
        print(f"\nA benchmark itself is started with {program()}; see {program()} --help.")
        return 0
    if argv[0] not in VERBS:
        raise unknown("verb", argv[0], VERBS)
    name, _ = VERBS[argv[0]]
    code: int = import_module(name).main(argv[1:])
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

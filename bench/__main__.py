"""Small tools around a benchmark: python -m bench VERB."""

from __future__ import annotations

import sys
from importlib import import_module

from bench.errors import guarded, unknown
from datamodules.base import DataError

VERBS = {
    "partition": "plot how a data set is dealt to the clients: labels, and distance from the whole",
    "replay": "re-run a record and say whether the weights are the same, bit for bit",
    "timeline": "a picture of who trained, transmitted and waited in a run, on the virtual clock",
    "speed": "how fast local training is here, against a plain loop",
}


def main(argv: list[str]) -> int:
    return guarded(lambda: _verb(argv), DataError)


def _verb(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print("python -m bench VERB [options]\n")
        print("\n".join(f"  {verb:10} {text}" for verb, text in VERBS.items()))
        print("\nA benchmark itself is started with python bench.py; see python bench.py --help.")
        return 0
    if argv[0] not in VERBS:
        raise unknown("verb", argv[0], VERBS)
    code: int = import_module(f"bench.{argv[0]}").main(argv[1:])
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Small tools around a benchmark: python -m bench VERB."""

from __future__ import annotations

import sys

from bench import speed

VERBS = {"speed": (speed.main, "how fast local training is here, against a plain loop")}


def main(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print("python -m bench VERB [options]\n")
        print("\n".join(f"  {verb:10} {text}" for verb, (_, text) in VERBS.items()))
        print("\nA benchmark itself is started with python bench.py; see python bench.py --help.")
        return 0
    if argv[0] not in VERBS:
        print(f"error: Unknown verb '{argv[0]}'; choose from {', '.join(VERBS)}.", file=sys.stderr)
        return 2
    VERBS[argv[0]][0](argv[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

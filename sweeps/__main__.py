"""python -m sweeps: each paper's tables and figures, re-run."""

from __future__ import annotations

import sys
from textwrap import fill

from bench.errors import Parser, guarded
from sweeps.plan import Sweep, find, sweeps


def main() -> int:
    return guarded(_verb)


def _verb() -> int:
    parser = Parser(prog="python -m sweeps", description="Each paper's tables and figures, re-run.")
    parser.add_argument("name", nargs="?", help="a sweep such as fedlga/table4, or: list")
    parser.add_argument(
        "keys",
        nargs="*",
        metavar="key=value",
        help="dataset=, algo=, method=, setting=: only these "
        "runs (patterns with * too); seed=0,1: these seeds; any other key of bench.py: for every run",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the commands, one per line, and run nothing")
    args = parser.parse_intermixed_args()
    if args.name is None:
        parser.print_help()
        return 0
    if args.name == "list":
        print(listing(args.keys))
        return 0
    sweep = find(args.name, args.keys)
    if args.dry_run:
        print("\n".join(sweep.commands))
        return 0
    return 0


def listing(keys: list[str]) -> str:
    return "\n\n".join(_entry(sweep) for sweep in (sweeps().values()))


def _entry(sweep: Sweep) -> str:
    head = f"{sweep.name:20} {len(sweep.jobs):5} runs"
    return f"{head}\n{fill(sweep.source, 110, initial_indent='    ', subsequent_indent='    ')}"


if __name__ == "__main__":
    sys.exit(main())

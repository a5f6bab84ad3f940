"""python -m leaderboards: what runs and claims add up to."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.errors import UserError
from bench.record import load_all
from leaderboards.tables import leaderboard


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m leaderboards", description="What recorded runs add up to.")
    verbs = parser.add_subparsers(dest="verb", title="verbs", metavar="VERB")
    table = verbs.add_parser("table", help="a table of the runs in a folder, grouped by data set and protocol")
    table.add_argument("--runs", type=Path, default=Path("runs"), help="the folder that holds runs (default: runs)")
    table.add_argument("--group", help="only the runs of this multirun")
    table.add_argument("--plot", type=Path, metavar="FILE.png", help="write learning curves too")
    args = parser.parse_args()
    if args.verb is None:
        parser.print_help()
        return 0
    try:
        _table(args.runs, args.group, args.plot)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _table(folder: Path, group: str | None, plot: Path | None) -> None:
    runs = load_all(folder, group)
    if not runs:
        raise UserError(f"There are no runs in {folder}; make some with python bench.py, or name another with --runs.")
    print(leaderboard(runs))
    if plot is not None:
        if all(run.result is None for run in runs):
            raise UserError("No run is finished: there is nothing to plot.")
        from leaderboards.plots import learning_curves

        learning_curves(runs, plot)
        print(f"\nLearning curves: {plot}")


if __name__ == "__main__":
    sys.exit(main())

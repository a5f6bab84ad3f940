"""python -m leaderboards: what runs and claims add up to."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.errors import Parser, UserError, guarded, unknown
from bench.record import load_all
from leaderboards.tables import aligned, leaderboard


def main() -> int:
    return guarded(_verb)


def _verb() -> int:
    parser = Parser(prog="python -m leaderboards", description="What runs and claims add up to.")
    verbs = parser.add_subparsers(dest="verb", title="verbs", metavar="VERB")
    table = verbs.add_parser("table", help="a table of the runs in a folder, grouped by data set and protocol")
    table.add_argument("--runs", type=Path, default=Path("runs"), help="the folder that holds runs (default: runs)")
    table.add_argument("--group", help="only the runs of this multirun")
    table.add_argument("--plot", type=Path, metavar="FILE.png", help="write learning curves too")
    claims = verbs.add_parser("claims", help="the papers' claims, with what is known about each")
    claims.add_argument("--paper", help="only those of this paper")
    claims.add_argument("--where", help='only those of this place in it, such as "Table V"')
    claims.add_argument("--verdict", help="only those with this verdict, such as inconsistent")
    verbs.add_parser("audit", help="where the papers contradict themselves, as a Markdown table")
    check = verbs.add_parser("check", help="have claims, verdicts or pinned trajectories moved? (CI runs this)")
    check.add_argument("--update", action="store_true", help="make what is now the new expectation")
    args = parser.parse_args()
    if args.verb is None:
        parser.print_help()
        return 0
    if args.verb == "table":
        _table(args.runs, args.group, args.plot)
    elif args.verb == "claims":
        _claims(args.paper, args.where, args.verdict)
    elif args.verb == "audit":
        from leaderboards.audit import markdown

        print(markdown())
    else:
        from leaderboards.check import check as run_check

        return run_check(args.update)
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


def _claims(paper: str | None, where: str | None, verdict: str | None) -> None:
    from leaderboards.check import summary
    from leaderboards.ledger import PAPERS, load
    from leaderboards.verdict import VERDICTS, verdicts

    if paper is not None and paper not in PAPERS:
        raise unknown("paper", paper, PAPERS)
    if verdict is not None and verdict not in VERDICTS:
        raise unknown("verdict", verdict, VERDICTS)
    claims = [claim for claim in load() if paper in (None, claim.paper)]
    places = {claim.where for claim in claims}
    if where is not None and where.lower() not in map(str.lower, places):
        raise UserError(f"There are no claims in '{where}'; there are in {', '.join(sorted(places))}.")
    claims = [claim for claim in claims if where is None or claim.where.lower() == where.lower()]
    shown = [v for v in verdicts(claims) if verdict in (None, v.verdict)]
    head = ["claim", "printed", "verdict", "why"]
    print("\n".join(aligned([head, *([v.id, v.claim.text, v.verdict, v.why] for v in shown)], words=(0, 2, 3))))
    print(f"\n{summary(shown)}")


if __name__ == "__main__":
    sys.exit(main())

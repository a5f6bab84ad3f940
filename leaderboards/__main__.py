"""python -m leaderboards: what runs and claims add up to."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, HelpFormatter, Namespace
from collections.abc import Callable
from pathlib import Path

from bench.errors import Parser, UserError, guarded, program, unknown
from bench.output.pictures import picture
from bench.output.tables import aligned, leaderboard
from bench.record import read_all


def main() -> int:
    return guarded(_verb)


def _verb() -> int:
    args = _parser().parse_args()
    if args.verb is None:
        _parser().print_help()
        return 0
    return VERBS[args.verb](args) or 0


def _parser() -> Parser:
    parser = Parser(
        prog="python -m leaderboards",
        description="What runs and claims add up to.",
        epilog="The options of a verb: python -m leaderboards VERB --help.",
        formatter_class=lambda prog: HelpFormatter(prog, width=110),  # a verb, a line, however narrow the terminal
    )
    verbs = parser.add_subparsers(dest="verb", title="verbs", metavar="VERB")

    def verb(name: str, does: str) -> ArgumentParser:
        return verbs.add_parser(name, help=does, description=f"{does[:1].upper()}{does[1:]}.")

    table = verb("table", "a table of the runs in a folder, grouped by data set and protocol")
    table.add_argument("--runs", type=Path, default=Path("runs"), help="the folder that holds runs (default: runs)")
    table.add_argument("--group", help="only the runs of this multirun")
    table.add_argument("--plot", type=picture, metavar="FILE.png", help="write learning curves too")
    claims = verb("claims", "the papers' claims, with what is known about each")
    claims.add_argument("--paper", help="only those of this paper")
    claims.add_argument("--where", help='only those of this place in it, such as "Table V"')
    claims.add_argument("--verdict", help="only those with this verdict, such as inconsistent")
    command = verb("command", "how to re-run a claim, or why it cannot be run here")
    command.add_argument("claim", help="the name of a claim, as `claims` lists it")
    add = verb("add", "keep finished runs as committed results")
    add.add_argument(
        "run",
        nargs="+",
        type=Path,
        help="the folder of a finished run, runs/<id>, one that holds runs, or a sweep's, runs/<sweep>",
    )
    add.add_argument("--replace", action="store_true", help="in place of the results of the same configs")
    replan = verb("replan", "after plans in sweeps/ have changed: find the runs of today's plans that results are")
    replan.add_argument("--drop", action="store_true", help="remove the results that are a run of no plan any more")
    build = verb("build", "write the tables and the static site")
    where = Path("build/leaderboard")
    build.add_argument("--out", type=Path, default=where, metavar="DIR", help=f"the folder to write to ({where})")
    wandb = verb("wandb", "send committed results to W&B and write the report there")
    wandb.add_argument("--entity", required=True, help="the user or team at W&B")
    wandb.add_argument("--project", required=True, help="the project there; it is made if there is none")
    verb("audit", "where the papers contradict themselves, as a Markdown table")
    readings = verb("readings", "what the papers leave open: the readings of it, how near each comes, and which counts")
    readings.add_argument("--paper", help="only those of this paper")
    seeds = verb("seeds", "how many seeds each cell needs by the spread over calibration seeds, and what is missing")
    seeds.add_argument("--update", action="store_true", help="fix these numbers, before the seeds are run")
    simulate = verb("simulate", "how often the rules err, on made-up claims whose truth is known")
    simulate.add_argument("--claims", type=int, default=10_000, metavar="N", help="of each kind (default: 10000)")
    check = verb("check", "have claims, verdicts or pinned trajectories moved? (CI runs this)")
    check.add_argument(
        "--update", nargs="*", metavar="METHOD", help="make what is now the new expectation, or that of these methods"
    )
    check.add_argument("--data", action="store_true", help="short runs on real Fashion-MNIST instead (three minutes)")
    return parser


def _table(args: Namespace) -> None:
    runs = read_all(args.runs, args.group)
    if not runs:
        raise UserError(f"There are no runs in {args.runs}; make some with {program()}, or name another with --runs.")
    print(leaderboard(runs))
    if args.plot is not None:
        if all(run.result is None for run in runs):
            raise UserError("No run is finished: there is nothing to plot.")
        from bench.output.curves import learning_curves

        learning_curves(runs, args.plot)
        print(f"\nLearning curves: {args.plot}")


def _claims(args: Namespace) -> None:
    from leaderboards.check import summary
    from leaderboards.ledger import load
    from leaderboards.papers import papers
    from leaderboards.show import measured, printed
    from leaderboards.verdict import VERDICTS, verdicts

    paper, where, verdict = args.paper, args.where, args.verdict
    if paper is not None and paper not in papers():
        raise unknown("paper", paper, papers())
    if verdict is not None and verdict not in VERDICTS:
        raise unknown("verdict", verdict, VERDICTS)
    claims = [claim for claim in load() if paper in (None, claim.paper)]
    places = {claim.where for claim in claims}
    if where is not None and where.lower() not in map(str.lower, places):
        raise UserError(f"There are no claims in '{where}'; there are in {', '.join(sorted(places))}.")
    claims = [claim for claim in claims if where is None or claim.where.lower() == where.lower()]
    shown = [v for v in verdicts(claims) if verdict in (None, v.verdict)]
    head = ["claim", "printed", "measured", "verdict", "why"]
    rows = [[v.id, printed(v), measured(v), v.verdict, v.why] for v in shown]
    print("\n".join(aligned([head, *rows], words=(0, 3, 4))))
    print(f"\n{summary(shown)}\n\nHow to re-run one: python -m leaderboards command CLAIM")


def _command(args: Namespace) -> None:
    from leaderboards.commands import find, recipe

    print(recipe(find(args.claim)).text())


def _add(args: Namespace) -> int:
    from leaderboards.add import add_what_may

    added, refused = add_what_may(args.run, replace=args.replace)
    for result, fate in added:
        cells = sorted({f"{p.sweep} {p.method} ({p.setting}), scale {p.scale}" for p in result.plan})
        print(f"{fate}  results/{result.name}.json  {result.label}: {'; '.join(cells)}")
    if added:
        print("To judge the claims by them: python -m leaderboards check --update", flush=True)
    if refused:
        print(f"\nNot added, {len(refused)} of {len(refused) + len(added)}:", *refused, sep="\n", file=sys.stderr)
    return 0 if not refused else 1 if added else 2


def _replan(args: Namespace) -> int:
    from leaderboards.replan import replan

    changed, lost = replan(drop=args.drop)
    for reason in lost:
        print(reason)
    fate = "had none and are gone" if args.drop else "have none"
    print(f"{len(changed)} results have other plans now, {len(lost)} {fate}.")
    return int(bool(lost) and not args.drop)


def _build(args: Namespace) -> None:
    from leaderboards.page.build import build

    print(build(args.out))


def _wandb(args: Namespace) -> None:
    from leaderboards.reports import publish

    print(publish(args.entity, args.project))


def _audit(args: Namespace) -> None:
    from leaderboards.audit import markdown

    print(markdown())


def _readings(args: Namespace) -> None:
    from leaderboards.choose import overview
    from leaderboards.papers import papers

    if args.paper is not None and args.paper not in papers():
        raise unknown("paper", args.paper, papers())
    print("\n\n".join(overview(paper) for paper in papers() if args.paper in (None, paper)))


def _seeds(args: Namespace) -> None:
    from leaderboards import need

    if args.update:
        print(f"{need.update()} rows of leaderboards/seeds.csv written: commit it before the runs.")
    else:
        print(need.overview())


def _simulate(args: Namespace) -> None:
    from leaderboards.simulate import simulate

    if args.claims < 1:
        raise UserError(f"--claims {args.claims} leaves nothing to simulate: it is 1 or more.")
    print(simulate(args.claims))


def _check(args: Namespace) -> int:
    update, names = args.update is not None, args.update or []
    if args.data:
        from leaderboards import regression

        if names:
            raise UserError("check --data has claims, not methods: --update takes no names there.")
        return regression.check(update)
    from leaderboards.check import check, pin

    return pin(names) if names else check(update)


VERBS: dict[str, Callable[[Namespace], int | None]] = {
    "table": _table,
    "claims": _claims,
    "command": _command,
    "add": _add,
    "replan": _replan,
    "build": _build,
    "wandb": _wandb,
    "audit": _audit,
    "readings": _readings,
    "seeds": _seeds,
    "simulate": _simulate,
    "check": _check,
}

if __name__ == "__main__":
    sys.exit(main())

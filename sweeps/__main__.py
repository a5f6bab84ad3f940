"""python -m sweeps: each paper's tables and figures, re-run."""

from __future__ import annotations

import math
import sys
from argparse import Namespace
from pathlib import Path
from tempfile import gettempdir
from textwrap import fill
from typing import TYPE_CHECKING

from bench.errors import Parser, UserError, guarded
from sweeps.plan import NARROWING, Sweep, find, sweeps

if TYPE_CHECKING:  # Optuna takes a second
    from sweeps.worker import Options

SAMPLERS = ("grid", "tpe")
VERBS = {
    "list": "every sweep: runs, estimated time, source",
    "NAME": "run a sweep, fedlga/table4 say; the same words go on with it after a stop",
    "campaign": "run what the ledger still lacks, by claims an hour; --dry-run prints what it would cost",
    "results NAME": "the table and plots of what is finished",
    "dashboard NAME": "Optuna's dashboard of it in the browser",
}
EPILOG = """
examples:
  python -m sweeps list                                           every sweep: runs, estimated time, source
  python -m sweeps fedlga/table4 dataset=fmnist scale=cpu --dry-run   its commands, one per line
  python -m sweeps fedlga/table4 dataset=fmnist scale=cpu --workers 2 run it; the same command goes on after a stop
  python -m sweeps fedlga/table4 dataset=fmnist sampler=tpe       search around the paper's grid
  python -m sweeps campaign --dry-run                             what the ledger lacks, and the price of it
  python -m sweeps campaign --hours 8 --workers 2 --add           run it for a night; the same command goes on
  python -m sweeps results fedlga/table4 dataset=fmnist scale=cpu the table and plots of what is finished
  python -m sweeps dashboard fedlga/table4 dataset=fmnist scale=cpu   Optuna's dashboard in the browser
"""


def main() -> int:
    return guarded(_verb)


def _verb() -> int:
    parser = _parser()
    args = parser.parse_intermixed_args()
    if not args.words:
        print("python -m sweeps VERB [key=value ...] [options]\n")
        print("\n".join(f"  {verb:15} {what}" for verb, what in VERBS.items()))
        print("\nKeys, options and examples: python -m sweeps --help.")
        return 0
    first, *rest = args.words
    if first == "list":
        print(listing(rest))
        return 0
    if first == "campaign":
        return _campaign(rest, args)
    verb, named = (first, rest) if first in ("results", "dashboard") else ("run", args.words)
    if not named:
        raise UserError(f"{verb} of which sweep? python -m sweeps list shows them all.")
    name, *words = named
    keys, sampler = _sampler(words)
    sweep = find(name, keys)
    _understood(sweep, keys)
    if verb == "run" and args.dry_run:
        print("\n".join(sweep.commands))
        return 0
    return _act(verb, _options(name, keys, sampler, args), args)


def _understood(sweep: Sweep, keys: list[str]) -> None:
    """Refuses keys that no method of the sweep can be run with."""
    if not any(key.partition("=")[0] not in (*NARROWING, "seed") for key in keys):
        return
    from bench.prepare import compose

    first = {run.method: run for run in reversed(sweep.runs)}.values()
    reason = None
    for run in first:
        try:
            compose.config([*run.words(sweep.seeds[0]), f"out={gettempdir()}"])
            return
        except UserError as error:
            reason = error
    assert reason is not None
    raise reason


def _parser() -> Parser:
    from argparse import RawDescriptionHelpFormatter

    parser = Parser(
        prog="python -m sweeps",
        usage="python -m sweeps NAME [key=value ...] [options]",
        description="Each paper's tables and figures, re-run: on one machine or, with PostgreSQL, on many.",
        epilog=EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="NAME key=value",
        help="a sweep, or list, campaign, results NAME, dashboard NAME; "
        "dataset=, algo=, method=, setting= keep only these runs (patterns with * too), "
        "seed=0,1 sets the seeds, sampler=tpe searches, other keys of bench.py join every run",
    )
    add = parser.add_argument
    add("--dry-run", action="store_true", help="print the commands (campaign: the blocks and prices) and run nothing")
    add("--workers", type=int, default=1, metavar="N", help="processes to start here (default 1)")
    add("--storage", metavar="URL", help="sqlite:///file.db (default: sweeps.db in --out) or postgresql://user@host/db")
    add("--out", default="runs", metavar="DIR", help="the folder that holds the runs and tables (default: runs)")
    add("--grace", type=int, default=120, metavar="S", help="a worker silent for so long counts as dead (default 120)")
    add("--trials", type=int, default=20, metavar="N", help="sampler=tpe: trials of every method (default 20)")
    add("--hours", type=float, metavar="H", help="campaign: begin no run that would end later, by the estimate")
    add("--add", action="store_true", help="campaign: add finished blocks to the ledger (leaderboards add)")
    add("--retry-failed", action="store_true", help="run what failed once more")
    add("--rerun", action="store_true", help="run again what was finished by other code of its method than is here now")
    add("--port", type=int, default=8080, help="dashboard: where it listens (default 8080)")
    return parser


def _sampler(words: list[str]) -> tuple[list[str], str]:
    chosen = [word.removeprefix("sampler=") for word in words if word.startswith("sampler=")]
    if chosen and chosen[-1] not in SAMPLERS:
        raise UserError(f"sampler={chosen[-1]} is unknown; choose from {', '.join(SAMPLERS)}.")
    return [word for word in words if not word.startswith("sampler=")], chosen[-1] if chosen else "grid"


def _options(name: str, keys: list[str], sampler: str, args: Namespace) -> Options:
    from sweeps.worker import Options

    for option, least in (("workers", 1), ("grace", 4), ("trials", 1)):
        if getattr(args, option) < least:
            raise UserError(f"--{option} {getattr(args, option)} is too small: at least {least}.")
    if not 1 <= args.port <= 65535:
        raise UserError(f"--port {args.port} is not possible: it must be between 1 and 65535.")
    storage = args.storage or f"sqlite:///{Path(args.out) / 'sweeps.db'}"
    return Options(name, tuple(keys), storage, args.out, args.grace, sampler, args.trials)


def _act(verb: str, options: Options, args: Namespace) -> int:
    from sweeps.drive import Drive, show, slug
    from sweeps.stale import stale

    queue = options.queue()
    if verb == "results":
        show(queue, Path(args.out) / slug(queue))
        if older := stale(queue).text():
            print(f"{queue.state().finished} finished{older}")
        return 0
    if verb == "dashboard":
        from sweeps.dashboard import serve

        return serve(queue, args.port)
    if args.retry_failed:
        queue.retry_failed()
    if args.rerun:
        queue.set_aside(stale(queue).trials)
    return Drive(options, args.workers, queue).run()


def _campaign(keys: list[str], args: Namespace) -> int:
    from sweeps import campaign

    if keys:
        raise UserError(f"'{keys[0]}': a campaign takes no keys; what it runs follows from the ledger.")
    if args.hours is not None and not 0 < args.hours < math.inf:
        raise UserError(f"--hours {args.hours:g} is not possible: more than 0.")
    options = _options("campaign", [], "grid", args)
    if args.dry_run:
        print(campaign.preview(options))
        return 0
    return campaign.run(options, args.workers, args.hours, args.add, args.retry_failed, args.rerun)


def listing(keys: list[str]) -> str:
    from sweeps.estimate import hours, speed

    factor, lines = speed(), []
    for sweep in _matching(keys):
        head = f"{sweep.name:18} {len(sweep.jobs):5} runs {_time(hours(sweep, factor)):>12}"
        lines.append(f"{head}\n{fill(sweep.source, 110, initial_indent='    ', subsequent_indent='    ')}")
    lines.append(
        "Times are for one core of this machine, estimated without training: samples to be seen, times what each\n"
        "model takes for one, scaled by a matrix product here; good to a factor of three. What is affordable without\n"
        "a GPU: python -m sweeps list scale=cpu. What a sweep would run: python -m sweeps NAME --dry-run."
    )
    return "\n\n".join(lines)


def _matching(keys: list[str]) -> list[Sweep]:
    """Every sweep with these keys; those that a key leaves without a run are left out."""
    narrows = any(key.partition("=")[0] in NARROWING for key in keys)
    found = []
    for name in sweeps():
        try:
            found.append(find(name, keys))
        except UserError:
            if not narrows:
                raise
    if not found:
        raise UserError(f"{' '.join(keys)} leaves no run of any sweep.")
    return found


def _time(hours: float) -> str:
    if math.isnan(hours):
        return "unknown"
    for unit, name, most in ((1 / 60, "min", 60), (1, "h", 100), (24, "days", 1000)):
        if hours < most * unit:
            return f"{hours / unit:.{int(unit == 1)}f} {name}"
    return f"{hours / 24 / 365:.0f} years"


if __name__ == "__main__":
    sys.exit(main())

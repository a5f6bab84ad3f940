"""python -m leaderboards check --data: a few claims with short horizons on real Fashion-MNIST, against stored means.

Each claim's own command of the plan runs for ROUNDS rounds with every seed of it; what is compared is the accuracy
over the last LAST rounds, its mean over seeds with the stored one, and who is ahead of whom. Short runs say nothing
about the claim itself: they say whether the runs behind its verdict would still come out.
"""

from __future__ import annotations

import json
import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

from bench.errors import UserError
from bench.metrics import PLUS_MINUS, mean_interval
from bench.record import write_atomically
from leaderboards import golden
from leaderboards.check import table
from leaderboards.commands import find
from leaderboards.golden import Change, RunFailed
from leaderboards.papers import papers, special
from leaderboards.plans import cell_of, places

FILE = "regression_fmnist.txt"  # JSON; not *.json, which are golden runs
ROUNDS, LAST = 40, 10
TOLERANCE = 0.005  # half a point; the seeds are the same, so that only rounding may differ
CLAIMS = tuple(name for paper in papers() for name in special(paper).regression)


@dataclass(frozen=True)
class Short:
    """The accuracy at the end of a claim's short runs."""

    accuracy: tuple[float, ...]  # per seed
    mean: float
    half: float  # of the 95 % interval


Found = dict[str, Short]


def check(update: bool, root: Path = golden.ROOT) -> int:
    """Prints what moved and returns the exit code; `update` stores what is now."""
    started, path = time.monotonic(), golden.folder(root) / FILE
    stored = {} if update and not path.exists() else read(path)
    try:
        now = run_now(root)
    except RunFailed as error:
        print(f"check failed: {error}")
        return 1
    changes = compare(stored, now)
    if update:
        text = json.dumps({name: asdict(short) for name, short in now.items()}, indent=1)
        write_atomically(path, text + "\n")
    if changes:
        print(table(changes))
    for name, short in now.items():
        print(f"{_words(short)} %  {name}")
    print(f"{len(now)} claims, {ROUNDS} rounds on Fashion-MNIST, {time.monotonic() - started:.0f} s.")
    print(f"{len(changes)} changes{', written' if update else ''}." if changes else "Nothing moved.")
    return 0 if update or not changes else 1


def read(path: Path) -> Found:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {name: Short(tuple(v["accuracy"]), v["mean"], v["half"]) for name, v in content.items()}
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{path} is not readable; python -m leaderboards check --data --update writes it.") from None


def compare(stored: Found, now: Found) -> list[Change]:
    """Means that left the stored one by more than the tolerance, or its interval; and orderings that turned."""
    changes = []
    for name in stored | now:
        old, new = stored.get(name), now.get(name)
        if old is None or new is None:
            changes.append(Change(name, _words(old), _words(new), ""))
        elif abs(new.mean - old.mean) > min(TOLERANCE, max(old.half, 1e-4)):
            changes.append(Change(name, _words(old), _words(new), f"{100 * (new.mean - old.mean):+.2f}"))
    both = [name for name in stored if name in now]
    for a, b in combinations(both, 2):
        before, after = (found[a].mean - found[b].mean for found in (stored, now))
        if abs(before) > TOLERANCE and math.copysign(1, before) != math.copysign(1, after):
            words = f"{100 * before:+.2f}", f"{100 * after:+.2f}"
            changes.append(Change(f"{a} minus {b}", *words, f"{100 * (after - before):+.2f}"))
    return changes


def _words(short: Short | None) -> str:
    return "none" if short is None else f"{100 * short.mean:.2f} {PLUS_MINUS} {100 * short.half:.2f}"


def run_now(root: Path = golden.ROOT) -> Found:
    """Two claims at a time, each in a process of one thread."""
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(CLAIMS, pool.map(lambda name: _run(name, root), CLAIMS), strict=True))


def _run(name: str, root: Path) -> Short:
    claim = find(name)
    place = places(cell_of(claim), claim.where)[0]
    seeds = ",".join(map(str, place.sweep.seeds))
    keys = (*place.run.overrides, f"seed={seeds}", f"rounds={ROUNDS}", "engine.device=cpu", "logger=none")
    runs = golden.multirun(keys, ("FEDBENCH_GROUP", "WANDB_"), root)
    return short([run.column(run.metric.column) for run in sorted(runs, key=lambda run: int(run.config["seed"]))])


def short(curves: list[list[float]]) -> Short:
    """Of the accuracies per round of each seed."""
    ends = [math.fsum(curve[-LAST:]) / LAST for curve in curves]
    mean, half = mean_interval(ends)
    return Short(tuple(round(end, 6) for end in ends), round(mean, 6), round(half or 0.0, 6))

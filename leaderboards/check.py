"""python -m leaderboards check: are the claims whole, the verdicts those expected, the trajectories where they were?"""

from __future__ import annotations

import csv
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.errors import UserError
from bench.output.facts import git_history
from bench.output.metrics_csv import csv_text
from bench.output.tables import aligned
from bench.record import write_atomically
from leaderboards import calibrate, choose, golden, need, plans, results
from leaderboards.golden import Change
from leaderboards.papers import LedgerError, papers
from leaderboards.verdict import NOT_RUN, Verdict, all_verdicts, number

EXPECTED = "verdicts.csv"
SHOWN = 80  # rows of the table of what moved
COLUMNS = ("verdict", "measured", "seeds", "scale")
Expected = dict[str, tuple[str, ...]]  # claim -> these columns; what is not in it is not run


def pin(names: Sequence[str], root: Path = golden.ROOT) -> int:
    """Makes what these methods do now the new expectation, and touches nothing else."""
    folder = golden.folder(root)
    old = golden.load(folder)
    try:
        runs = golden.run_now(root, names)
    except golden.RunFailed as error:
        _, refused, sentence = str(error).strip().rpartition("error: ")
        if refused:
            raise UserError(sentence) from None
        print(f"check failed: {error}")
        return 1
    changes = golden.compare({name: old[name] for name in names if name in old}, runs)
    moved = _save(folder, old, runs)
    if not moved:
        print("Nothing moved.")
        return 0
    if any(name in old for name in moved):
        print(table([change for change in changes if change.name.partition(" ")[0] in old]))
        print('Say why under "Numbers" in CHANGELOG.md.')
    print(f"{', '.join(moved)}: pinned in {folder}.")
    return 0


def _save(folder: Path, old: golden.Runs, runs: golden.Runs) -> list[str]:
    """Writes the methods that moved, or are new; within the tolerances a file stays as it is."""
    moved = [name for name, run in runs.items() if name not in old or golden.compare({name: old[name]}, {name: run})]
    golden.save(folder, {name: runs[name] for name in moved})
    return moved


def check(update: bool, root: Path = golden.ROOT) -> int:
    """Prints what moved and returns the exit code; `update` makes what is now the new expectation.

    A method or paper of which nothing is pinned has not moved: adding one is no more than adding its files.
    """
    started = time.monotonic()
    folder = golden.folder(root)
    old_verdicts, old_runs = _read(folder / EXPECTED), golden.load(folder)
    try:
        orphans()
        choose.check()
        need.check()
        calibrate.check()
        found = all_verdicts()
        verdicts, runs = expected(found), golden.run_now(root)
    except (LedgerError, RuntimeError) as error:
        print(f"check failed: {error}")
        return 1
    methods = runs.keys() - old_runs.keys()
    firsts = {_paper(name) for name in verdicts} - {_paper(name) for name in old_verdicts}
    parts = (
        compare(old_verdicts, {name: row for name, row in verdicts.items() if _paper(name) not in firsts}),
        golden.compare(old_runs, {name: run for name, run in runs.items() if name not in methods}),
    )
    moved, fresh = sum(map(len, parts)), [*sorted(methods), *sorted(firsts)]
    if update:
        rows = ([claim, *columns] for claim, columns in verdicts.items())
        write_atomically(folder / EXPECTED, csv_text([["id", *COLUMNS], *rows]))
        _save(folder, old_runs, runs)
        for gone in old_runs.keys() - runs.keys():
            (folder / f"{gone}.json").unlink()
    for changes in filter(None, parts):
        print(table(changes))
    print(summary(found))
    count = sum(len(plans) for plans in runs.values())
    print(f"Golden runs: {count} of {len(runs)} algorithms on digits, {time.monotonic() - started:.0f} s.")
    if lost := unknown_commits():
        print(lost)
    if fresh:
        pinned = "and pinned now" if update else "and not pinned yet: python -m leaderboards check --update does it"
        print(f"{', '.join(fresh)}: new, {pinned}.")
    if not moved:
        print("Nothing moved.")
    elif update:
        print(f'{moved} changes written to {folder}. Say why under "Numbers" in CHANGELOG.md.')
    else:
        print(
            f"{moved} changes. If they are meant: python -m leaderboards check --update, and the reason under "
            '"Numbers" in CHANGELOG.md.'
        )
    return int(moved > 0 and not update)


def _paper(name: str) -> str:
    return name.partition("/")[0]


def expected(found: Iterable[Verdict]) -> Expected:
    return {v.id: _columns(v) for v in found if v.verdict != NOT_RUN}


def _columns(v: Verdict) -> tuple[str, ...]:
    value = f"never ({v.missed})" if v.missed else "" if v.measured is None else number(v.measured)
    return v.verdict, value, str(v.seeds or ""), v.scale or ""


def orphans() -> None:
    """Every committed result is a run of a plan that still exists, or no claim would ever look at it."""
    known = {place.key for place in plans.every()}
    for result in results.committed():
        for p in result.plan:
            if p.key not in known:
                name = f"leaderboards/results/{result.name}.json"
                raise LedgerError(f"{name} is a run of {p.sweep} that is no longer planned: add it again.")


def unknown_commits() -> str:
    """Names the commits that results were made by and that nobody can check out."""
    history = git_history()
    made_by = Counter(run.result.git_revision for run in results.committed())
    unknown = {str(name): count for name, count in made_by.items() if history and name not in history}
    if not unknown:
        return ""
    return (
        f"{sum(unknown.values())} results were made by commits that are not in this history, "
        f"{', '.join(name[:7] for name in sorted(unknown))}: run them again, then python -m leaderboards add --replace."
    )


def compare(old: Expected, new: Expected) -> list[Change]:
    """Verdicts that changed, or whose number did."""
    missing = (NOT_RUN, *[""] * (len(COLUMNS) - 1))
    changes = []
    for claim in old | new:
        a, b = old.get(claim, missing), new.get(claim, missing)
        if a != b:
            changes.append(Change(claim, " ".join(filter(None, a)), " ".join(filter(None, b)), _moved(a[1], b[1])))
    return changes


def _moved(a: str, b: str) -> str:
    try:
        return f"{float(b) - float(a):+.3g}"
    except ValueError:  # nothing, or never
        return ""


def summary(found: Sequence[Verdict]) -> str:
    """Claims per verdict, of each paper that has any among them."""
    names = sorted({v.verdict for v in found}, key=lambda name: (name == NOT_RUN, name))
    counts = Counter((v.claim.paper, v.verdict) for v in found)
    rows = [["claims", *names, "all"]]
    some = [paper for paper in papers() if any(v.claim.paper == paper for v in found)]
    for paper in some:
        numbers = [counts[paper, name] for name in names]
        rows.append([paper, *map(str, numbers), str(sum(numbers))])
    totals = [sum(counts[paper, name] for paper in some) for name in names]
    rows.append(["all", *map(str, totals), str(len(found))])
    return "\n".join(aligned(rows))


def table(changes: Sequence[Change]) -> str:
    rows = [["what moved", "golden", "now", "difference"]]
    rows += [[change.name, change.golden, change.now, change.difference] for change in changes[:SHOWN]]
    lines = aligned(rows)
    rest = [f"... and {len(changes) - SHOWN} more"] if len(changes) > SHOWN else []
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:], *rest, ""])


def _read(path: Path) -> Expected:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return {row["id"]: tuple(row[name] for name in COLUMNS) for row in csv.DictReader(file)}
    except FileNotFoundError:
        return {}
    except (KeyError, UnicodeDecodeError):
        raise UserError(f"{path} is not readable; python -m leaderboards check --update writes it.") from None

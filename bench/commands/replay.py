"""Re-runs a record from its config and says whether the weights are the same, bit for bit."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.errors import Diverged, Parser, UserError
from bench.output import facts
from bench.output.metrics_csv import Row
from bench.output.progress import Progress
from bench.prepare import check
from bench.record import TIMES, Run, read

if TYPE_CHECKING:  # torch takes two seconds, and the record may still be refused
    from bench.simulation.loop import FederatedLoop


def main(argv: Sequence[str]) -> int:
    parser = Parser("python -m bench replay", description=__doc__)
    parser.add_argument("run", metavar="runs/<id>", type=Path, help="the folder of a finished run, runs/<id>")
    run = read(parser.parse_args(argv).run)
    if run.result is None:
        raise UserError(
            f"{run.folder} is {run.status}, so there is no result to compare with; once it is interrupted, "
            f"python bench.py resume={run.folder} goes on."
        )
    check.recorded(run)
    rows, sha = _again(run)
    if sha == run.result.weights_sha256:
        print(f"identical: {len(rows)} rounds end in the recorded weights, sha256 {sha[:16]}...")
        return 0
    print(f"different: recorded weights {run.result.weights_sha256[:16]}..., now {sha[:16]}...")
    print(_first_difference(run.rows, rows))
    changes = list(_changes(run.result.to_dict(), facts.surroundings()))
    print("\n".join(f"  {name}: recorded {then}, now {now}" for name, then, now in changes))
    if not changes:
        print("  No recorded version or machine fact differs: please report this run as a bug.")
    return 1


def _again(run: Run) -> tuple[list[Row], str]:
    from bench.prepare.assemble import build

    with ExitStack() as stack:

        def folder(_: object) -> Path:
            return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="replay-", dir=run.folder)))

        here = run.config["engine"] | {"workers": None, "address": "local"}  # where it is computed does not change it
        parts = build(run.config | {"engine": here}, folder)
        stack.callback(parts.workers.close)
        return _rounds(parts.loop, run), facts.digest(parts.loop.server["w"])


def _rounds(loop: FederatedLoop, run: Run) -> list[Row]:
    progress, rows, rounds = Progress(), list[Row](), max(len(run.rows), 1)
    progress.begin(0.0)
    try:
        while not loop.finished:
            rows.append(loop.advance())
            progress.update(f"round {loop.round}/{rounds}", loop.round / rounds, None)
    except Diverged as error:
        print(f"it diverges in round {error.facts['round']}, recorded: {run.result and run.result.diverged}")
    finally:
        progress.end()
    return rows


def _first_difference(then: Sequence[Row], now: Sequence[Row]) -> str:
    for old, new in zip(then, now, strict=False):
        columns = [name for name in new if name not in TIMES and not _same(old.get(name), new[name])]
        if columns:
            name = columns[0]
            return f"  from round {new['round']} on: {name} was {old.get(name)}, is {new[name]}"
    return f"  the rounds agree in all they recorded ({len(then)} then, {len(now)} now)"


def _same(a: float | None, b: float) -> bool:
    return a == b or (a is not None and math.isnan(a) and math.isnan(b))


def _changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Facts that differ, those inside "versions" and "machine" by their own names."""
    for name, value in now.items():
        old = then.get(name)
        if isinstance(value, Mapping):
            yield from _changes(old or {}, value)
        elif old != value:
            yield name, old, value

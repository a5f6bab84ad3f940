"""Re-runs a record from its config and says whether weights, rows and result are the same, bit for bit."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.errors import Diverged, Parser, UserError, program
from bench.output import facts
from bench.output.metrics_csv import Row, number
from bench.output.outcome import gaps, rows_differ
from bench.output.progress import Progress
from bench.output.result import plain
from bench.prepare import check, own_files, registry
from bench.record import COLUMNS, Run, read

if TYPE_CHECKING:  # torch takes two seconds, and the record may still be refused
    from bench.prepare.assemble import Parts


@dataclass(frozen=True)
class Again:
    """What came out this time."""

    rows: list[Row]
    weights: str
    facts: dict[str, Any]  # of the result, as far as rows do not tell them
    changes: list[str]  # of data and code, since then


def main(argv: Sequence[str]) -> int:
    parser = Parser("python -m bench replay", description=__doc__)
    parser.add_argument("run", metavar="runs/<id>", type=Path, help="the folder of a finished run, runs/<id>")
    parser.add_argument(
        "words",
        metavar="algo=./file.py",
        nargs="*",
        default=[],
        help="code of your own that it ran, and that it may run again",
    )
    options = parser.parse_args(argv)
    run = read(options.run)
    if run.result is None:
        raise UserError(
            f"{run.folder} is {run.status}, so there is no result to compare with; once it is interrupted, "
            f"{program()} resume={run.folder} goes on."
        )
    with registry.borrowed():
        run = replace(run, config=own_files.named(run.config, options.words))
        check.recorded(run, f"python -m bench replay {run.folder}")
        again = _again(run)
    return _compare(run, again)


def _compare(run: Run, again: Again) -> int:
    assert run.result is not None
    result = run.result
    for change in again.changes:
        print(change)
    same, first = again.weights == result.weights_sha256, rows_differ(run.rows, again.rows)
    recorded = plain({name: getattr(result, name) for name in again.facts})
    other = [(name, recorded[name], value) for name, value in again.facts.items() if recorded[name] != value]
    own = gaps(run)
    if same and first is None and not other and not own:
        print(f"identical: {len(again.rows)} rounds end in the recorded weights, sha256 {again.weights[:16]}...")
        print("           so are their rows and the result, apart from seconds on the clock")
        return 0
    if same:
        print("different: the weights are the recorded ones, but the record is not what they give")
    else:
        print(f"different: recorded weights {result.weights_sha256[:16]}..., now {again.weights[:16]}...")
    if first is not None:
        print(f"  {first}")
    elif not same:
        print(f"  the rounds agree in all they recorded ({len(again.rows)})")
    for name, then, now in own:
        print(f"  result.json has {name} {then}, metrics.csv and config.yaml {now}")
    for name, then, now in other:
        print(f"  result.json has {name} {then}, now it is {now}")
    changes = list(_changes(result.to_dict(), facts.surroundings()))
    print("\n".join(f"  {name}: recorded {then}, now {now}" for name, then, now in changes))
    if not changes and not again.changes:
        print("  No recorded version, machine fact, data or code differs: the record was edited, or this is a bug.")
    return 1


def _again(run: Run) -> Again:
    from bench.prepare import fingerprints
    from bench.prepare.assemble import build

    with ExitStack() as stack:

        def folder(_: object) -> Path:
            return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="replay-", dir=run.folder)))

        here = run.config["engine"] | {"workers": None, "address": "local"}  # where it is computed does not change it
        parts = build(run.config | {"engine": here}, folder)
        stack.callback(parts.workers.close)
        changes = list(fingerprints.changes(run.config, parts.config["fingerprints"]))
        rows, diverged = _rounds(parts, run)
        found = {"metric": parts.evaluate.metric, "dropped": parts.loop.dropped, "model": parts.model}
        found |= {"diverged": diverged}
        return Again(rows, facts.digest(parts.loop.server["w"]), plain(found), changes)


def _rounds(parts: Parts, run: Run) -> tuple[list[Row], dict[str, Any] | None]:
    """The rows as the record has them, and where it diverged."""
    from bench.simulation.figures import after_round

    loop, progress, rounds = parts.loop, Progress(), max(len(run.rows), 1)
    rows, diverged = list[Row](), None
    progress.begin(0.0)
    try:
        while not loop.finished:
            values = {
                **dict.fromkeys(COLUMNS),
                **loop.advance(),
                **after_round(parts.evaluate, run.config["eval_every"]),
            }
            rows.append({name: math.nan if value is None else value for name, value in _numbers(values)})
            progress.update(f"round {loop.round}/{rounds}", loop.round / rounds, "")
    except Diverged as error:
        diverged = error.facts
        print(f"it diverges in round {diverged['round']}, recorded: {run.result and run.result.diverged}")
    finally:
        progress.end()
    return rows, diverged


def _numbers(values: Mapping[str, float | None]) -> Iterator[tuple[str, float | None]]:
    return ((name, number(value)) for name, value in values.items())


def _changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Facts that differ, those inside "versions" and "machine" by their own names."""
    for name, value in now.items():
        old = then.get(name)
        if isinstance(value, Mapping):
            yield from _changes(old or {}, value)
        elif old != value:
            yield name, old, value

"""python -m leaderboards replan: which runs of today's plans the committed results are, after plans or defaults have
changed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.errors import UserError
from bench.record import Run
from leaderboards import results
from leaderboards.add import planned, resolve_for
from leaderboards.results import CommittedRun, Planned
from sweeps.plan import command


def replan(folder: Path = results.FOLDER) -> tuple[list[CommittedRun], list[str]]:
    """The results whose plans or commands were written anew, and why others have none."""
    found = results.load(folder)
    runs = {result.name: _run(result, folder) for result in found}
    configs = resolve_for(list(runs.values()))
    changed, lost = list[CommittedRun](), list[str]()
    for result in found:
        try:
            plan = tuple(planned(runs[result.name], configs))
        except UserError as error:
            lost.append(str(error))
            continue
        today = replace(result, plan=plan, command=_command(result, plan))
        if today != result:
            changed.append(today)
            results.write(today, folder)
    return changed, lost


def _command(result: CommittedRun, plan: Sequence[Planned]) -> str:
    """What runs it again: a default that it went by may have changed, and the plan's words say what it was."""
    wanted = next((one.overrides for one in plan if not one.differs), ())
    if {*wanted} <= {*shlex.split(result.command)}:
        return result.command
    return command([*wanted, "logger=none", f"seed={result.seed}"])


def _run(result: CommittedRun, folder: Path) -> Run:
    config = {**result.config, "engine": result.engine, "group": result.group}
    return Run(folder / f"{result.name}.json", config, [], result.result, "finished")

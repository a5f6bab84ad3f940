"""python -m leaderboards replan: which runs of today's plans the committed results are, after plans or defaults have
changed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.errors import UserError
from bench.record import Run
from leaderboards import results
from leaderboards.add import Overrides, at_scale, planned, resolve_for
from leaderboards.results import CommittedRun
from sweeps.plan import command


def replan(folder: Path = results.FOLDER, drop: bool = False) -> tuple[list[CommittedRun], list[str]]:
    """The results whose plans or commands were written anew, and why others have none, which `drop` removes."""
    found = results.load(folder)
    runs = {result.name: _run(result, folder) for result in found}
    configs = resolve_for(list(runs.values()))
    changed, lost = list[CommittedRun](), list[str]()
    for result in found:
        try:
            plan = tuple(planned(runs[result.name], configs))
        except UserError as error:
            lost.append(str(error))
            if drop:
                results.remove(result, folder)
            continue
        words = [at_scale(one.overrides, str(result.config["scale"])) for one in plan]
        exact = [overrides for overrides in words if _is_run_by(result, configs[overrides])]
        today = replace(result, plan=plan, command=_command(result, exact))
        if today != result:
            changed.append(today)
            results.write(today, folder)
    return changed, lost


def _is_run_by(result: CommittedRun, config: Mapping[str, Any]) -> bool:
    return results.name_of({**config, "seed": result.seed}) == result.name


def _command(result: CommittedRun, exact: Sequence[Overrides]) -> str:
    """What runs it again: a default that it went by may have changed, and the plan's words say what it was."""
    said = {*shlex.split(result.command)}
    if not exact or any({*words} <= said for words in exact):
        return result.command
    return command([*exact[0], "logger=none", f"seed={result.seed}"])


def _run(result: CommittedRun, folder: Path) -> Run:
    config = {**result.config, "engine": result.engine, "group": result.group}
    return Run(folder / f"{result.name}.json", config, [], result.result, "finished")

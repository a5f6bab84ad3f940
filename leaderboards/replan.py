"""python -m leaderboards replan: which runs of today's plans the committed results are, after plans have changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.errors import UserError
from bench.record import Run
from leaderboards import results
from leaderboards.add import planned, resolve_for
from leaderboards.results import CommittedRun


def replan(folder: Path = results.FOLDER) -> tuple[list[CommittedRun], list[str]]:
    """The results whose plans were written anew, and why others have none."""
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
        if plan != result.plan:
            changed.append(replace(result, plan=plan))
            results.write(changed[-1], folder)
    return changed, lost


def _run(result: CommittedRun, folder: Path) -> Run:
    config = {**result.config, "engine": result.engine, "group": result.group}
    return Run(folder / f"{result.name}.json", config, [], result.result, "finished")

"""python -m leaderboards wandb: committed results as W&B runs, and a report with the tables and curves of the site.

Doing it again sends only what is new and updates the same report. The key stays with wandb: it is neither read nor
kept here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from bench.errors import UserError
from bench.output.weights_and_biases import begin, has_key
from leaderboards import results
from leaderboards.check import summary
from leaderboards.ledger import load
from leaderboards.page.boards import boards
from leaderboards.page.build import paper_markdown
from leaderboards.papers import papers
from leaderboards.results import CommittedRun
from leaderboards.verdict import verdicts

TITLE = "fedbench leaderboard"
CURVES = {"round": "round", "virtual_seconds": "virtual time"}


def publish(entity: str, project: str, found: Sequence[CommittedRun] | None = None) -> str:
    """Sends the results that are not there yet, writes or rewrites the report, and says what was done."""
    kept = results.committed() if found is None else tuple(found)
    if not has_key():
        raise UserError(
            "There is no W&B key: get one at https://wandb.ai/authorize, then run `wandb login` or set WANDB_API_KEY."
        )
    try:
        import wandb
        import wandb_workspaces  # noqa: F401
    except ImportError:
        raise UserError("W&B reports need another package: pip install 'fedbench[reports]'.") from None
    try:
        there = _there(wandb.Api(), entity, project)
        new = [result for result in kept if result.name not in there]
        for result in new:
            _send(result, entity, project)
        url, updated = _report(wandb.Api(), entity, project, kept)
    except (wandb.Error, OSError) as error:
        raise UserError(f"W&B did not take it: {str(error).partition(chr(10))[0]}.") from None
    words = "updated" if updated else "written"
    return f"{len(new)} runs sent, {len(kept) - len(new)} were there; report {words}: {url}"


def _there(api: Any, entity: str, project: str) -> set[str]:
    """The names of the runs that the project has; none if there is no project."""
    if project not in {found.name for found in api.projects(entity)}:
        return set()
    return {run.id for run in api.runs(f"{entity}/{project}", per_page=500)}


def _send(result: CommittedRun, entity: str, project: str) -> None:
    with tempfile.TemporaryDirectory(prefix="fedbench-wandb-") as folder:
        run = begin(
            entity=entity,
            project=project,
            id=result.name,
            name=f"{result.config['algo']['name']}-{result.config['dataset']['name']}-s{result.seed}",
            group=result.group,
            tags=sorted({planned.sweep for planned in result.plan}),
            config={**result.config, "method": result.plan[0].method, "setting": result.plan[0].setting},
            dir=folder,
            mode="online",
            resume="never",
        )
        for row in rows(result):
            run.log(row)
        run.summary.update(result.result.flat())
        run.finish()


def rows(result: CommittedRun) -> list[dict[str, float]]:
    """A row per round; what was not evaluated is left out of it."""
    columns = {**result.rows, "round": list(range(1, result.result.rounds + 1))}
    return [
        {name: value for name, value in zip(columns, values, strict=True) if value is not None}
        for values in zip(*columns.values(), strict=True)
    ]


def _report(api: Any, entity: str, project: str, kept: Sequence[CommittedRun]) -> tuple[str, bool]:
    wr: Any = import_module("wandb_workspaces.reports.v2")
    known = project in {found.name for found in api.projects(entity)}
    old = [r for r in api.reports(f"{entity}/{project}") if r.display_name == TITLE] if known else []
    report = wr.Report(
        entity=entity,
        project=project,
        title=TITLE,
        description="What federated-learning papers claim, and what comes out.",
        width="fluid",
        blocks=_blocks(wr, entity, project, kept),
    )
    if old:
        report.id = old[0].id
    report.save()
    return str(report.url), bool(old)


def _blocks(wr: Any, entity: str, project: str, kept: Sequence[CommittedRun]) -> list[Any]:
    """Per paper its tables, and a panel of curves for each sweep and data set that was run."""
    judged, found = verdicts(load(), kept), boards(kept)
    blocks = [wr.TableOfContents(), wr.H1("Claims by verdict"), wr.MarkdownBlock(f"```\n{summary(judged)}\n```")]
    for key, paper in papers().items():
        mine, its = [v for v in judged if v.claim.paper == key], [b for b in found if b.paper == key]
        blocks += [wr.H1(paper.name), wr.MarkdownBlock(paper_markdown(paper, mine, its))]
        configured = {(b.sweep, b.dataset): (b.lines[0].runs[0].config["dataset"]["name"], b.metric) for b in its}
        for (sweep, dataset), (name, metric) in configured.items():  # names differ: the papers split EMNIST in two
            runs = wr.Runset(
                entity=entity,
                project=project,
                name=f"{sweep}, {dataset}",
                filters=f"Metric('tags') in ['{sweep}'] and Config('dataset.name') = '{name}'",
                groupby=["config.method", "config.setting"],
            )
            titles = {axis: f"Test {metric.label} by {words}" for axis, words in CURVES.items()}
            panels = [wr.LinePlot(x=axis, y=[metric.column], title=title) for axis, title in titles.items()]
            blocks.append(wr.PanelGrid(runsets=[runs], panels=panels))
    return blocks

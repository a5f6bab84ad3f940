"""python -m sweeps campaign: what the ledger lacks, run in the order of claims per core-hour."""

from __future__ import annotations

import math
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from tempfile import gettempdir

from bench.apart import ROOT, answers
from bench.errors import UserError
from bench.output.facts import git_revision
from bench.output.progress import roughly
from bench.output.tables import aligned
from sweeps.blocks import LIMIT, Block, Campaign, ClaimNeeds, Done, Job, Prices, campaign, next_job, steps
from sweeps.campaign_queue import CampaignQueue
from sweeps.drive import SAY_SECONDS, Drive, words
from sweeps.plan import PlannedRun, pairs
from sweeps.queue import JOB, RECORD, QueueState
from sweeps.stale import stale
from sweeps.storage import StorageAddress
from sweeps.worker import Options

DIRTY = "--add keeps runs of committed code only, and the code here is not committed: commit it, or leave --add out."


def lacking() -> Campaign:
    """Asked of the ledger, which this package knows nothing of."""
    needs = answers("leaderboards.lacking", [], [], "the ledger could not say what it lacks")
    return campaign(map(ClaimNeeds.of, needs), prices())


@cache
def prices() -> Prices:
    """By the estimator; on this machine."""
    from sweeps.estimate import seconds, speed

    return Prices(cache(seconds), _scaled, lambda run: _missing(*_of_dataset(run)), speed())


def _scaled(run: PlannedRun) -> bool:
    from bench.prepare.resolve import options

    given = pairs(run.overrides)
    return given["dataset"] in options("protocol")[given["protocol"]].get("heavy", {})


def _of_dataset(run: PlannedRun) -> tuple[str, ...]:
    return tuple(word for word in run.overrides if word.startswith(("dataset", "protocol", "scale")))


@cache
def _missing(*of_dataset: str) -> str:
    """Nothing is downloaded to find out."""
    from bench.prepare import compose, registry

    node = compose.config([*of_dataset, f"out={gettempdir()}"])["dataset"]
    dataset = registry.create(node)
    return "" if dataset.available() is not None else f"{node['name']} is not here: {dataset.how_to_get()}."


def preview(options: Options) -> str:
    """The table, without what is finished in the study, if there is one."""
    found, file = lacking(), StorageAddress(options.storage, options.grace).file
    there = bool(found.blocks) and (file is None or file.exists())
    return table(found, _opened(_of(options, found)).done() if there else Done())


def table(found: Campaign, done: Done) -> str:
    """What would be run, in its order, with the price of every block, and what cannot be."""
    rows = [["block", "scale", "runs", "claims", "core-hours", "claims/h", "hours so far", "claims so far"]]
    hours, claims = 0.0, done.measured(found)
    for step in steps(found.blocks, done):
        own = step.seconds / 3600
        hours, claims = hours + own, claims + step.settles
        numbers = [f"{own:.3g}", f"{step.rate:.2g}", f"{hours:.4g}", str(claims)]
        rows.append([step.block.name, step.block.scale, str(len(step.lacking)), str(step.settles), *numbers])
    lines = aligned(rows, words=(0, 1)) if len(rows) > 1 else ["Nothing is lacking that can be run here."]
    lines += ["", f"{done.measured(found)} of {found.claims} claims have all their runs."]
    for why, of in found.refused.items():
        lines.append(f"Not by a campaign, {sum(map(len, of.values()))} claims: {why}")
        lines += [f"    {block} ({len(claims)})" for block, claims in of.items()]
    lines.append(
        f"A block is at scale=cpu where its protocol has one and a run at the paper's would take over {LIMIT / 60:.0f} "
        "min by the estimate,\nwhich is good to a factor of three; the first finished run of a block corrects it."
    )
    return "\n".join(lines)


@dataclass
class CampaignDrive(Drive):
    """Says what comes next and when it ends, and has finished blocks added to the ledger."""

    campaign: Campaign = field(kw_only=True)
    add: bool = False
    _given: set[Job] = field(default_factory=set)  # to the ledger, by this start

    def _say(self, first: QueueState, last: bool = False) -> None:
        state, (when, before) = self.queue.state(), self._said
        news = before is None or (state.finished, state.failed) != (before.finished, before.failed)
        if not (news or last or time.monotonic() - when > SAY_SECONDS):
            return
        self._said = time.monotonic(), state
        done = _queue(self).done()
        print(f"{done.measured(self.campaign)} of {self.campaign.claims} claims measured; {words(state)}", flush=True)
        if not last:
            print(self._ahead(done), flush=True)
        if self.add and news:
            over = {*done.took, *done.failed}
            self._keep([block for block in self.campaign.blocks if block.lacking <= over], done)

    def _ahead(self, done: Done) -> str:
        """What is begun next, and when all is over."""
        left = self.options.until - time.time()
        found = next_job(_queue(self).blocks, done, left)
        rest = sum(step.seconds for step in steps(_queue(self).blocks, done)) / self.workers
        end = f"    all in about {roughly(rest)}" + (f", stops in {roughly(max(0, left))}" if left < rest else "")
        if found is None:
            return f"{end}; nothing more is begun"
        step, job = found
        run = " ".join(word for word in job if word.startswith(("algo=", "seed=")))
        return f"{end}; next {run} of {step.block.name} ({roughly(step.price(job))}, its block {roughly(step.seconds)})"

    def _keep(self, blocks: Iterable[Block], done: Done) -> None:
        jobs = {job for block in blocks for job in block.lacking if job in done.took} - self._given
        if jobs:
            self._given |= jobs
            keep(_queue(self), jobs)

    def _end(self) -> int:
        done = _queue(self).done()
        if self.add:
            self._keep(self.campaign.blocks, done)
        self._say_what_failed()
        if next_job(_queue(self).blocks, done) is None:
            return int(bool(done.failed))
        late = self.options.until < math.inf
        print(f"{'No other run would end within --hours' if late else 'Not finished'}. To go on: {self.command}")
        return int(bool(done.failed) or not late)


def _queue(drive: Drive) -> CampaignQueue:
    assert isinstance(drive.queue, CampaignQueue)
    return drive.queue


def keep(queue: CampaignQueue, jobs: Iterable[Job]) -> None:
    """Has the ledger add the records of these jobs; what it refuses it says itself."""
    names = set(map(shlex.join, jobs))
    folders = [t.user_attrs[RECORD] for t in queue.finished() if t.user_attrs[JOB] in names and RECORD in t.user_attrs]
    if folders:
        subprocess.run([sys.executable, "-m", "leaderboards", "add", *folders], cwd=ROOT, check=False)


def run(options: Options, workers: int, hours: float | None, add: bool, retry: bool, rerun: bool) -> int:
    if add and "dirty" in (git_revision() or "dirty"):
        raise UserError(DIRTY)
    print("asking the ledger what it lacks", flush=True)
    found = lacking()
    if add and found.blocks:
        found = _with_earlier(options, found)
    if not found.blocks:
        print(table(found, Done()))
        return 0
    until = math.inf if hours is None else time.time() + 3600 * hours
    options = _of(options, found, until)
    queue = _opened(options)
    if retry:
        queue.retry_failed()
    if rerun:
        queue.set_aside(stale(queue).trials)
    more = [*(["--hours", f"{hours:g}"] if hours is not None else []), *(["--add"] if add else [])]
    code = CampaignDrive(options, workers, queue, tuple(more), campaign=found, add=add).run()
    if not add and queue.finished():
        print(f"To keep what is finished: python -m leaderboards add {shlex.quote(options.out)}", flush=True)
    return code


def _with_earlier(options: Options, found: Campaign) -> Campaign:
    """Adds what an earlier start has finished; what the ledger lacks then although it is finished, it did not take (the
    code was not committed, or changed during the run), and is run again."""
    queue = _opened(_of(options, found))
    if not queue.finished():
        return found
    keep(queue, queue.sweep.jobs)
    found = lacking()
    queue = CampaignQueue(found.blocks, queue.storage)
    if trials := [trial.number for trial in queue.finished()]:
        queue.set_aside(trials)
        print(f"{len(trials)} finished runs that the ledger did not take run again.", flush=True)
    return found


def _of(options: Options, found: Campaign, until: float = math.inf) -> Options:
    return replace(options, blocks=tuple(map(asdict, found.blocks)), until=until)


def _opened(options: Options) -> CampaignQueue:
    queue = options.queue()
    assert isinstance(queue, CampaignQueue)
    return queue

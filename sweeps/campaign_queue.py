"""A campaign's trials in its study: one at a time is enqueued, when a worker asks, by what is known then."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Sequence

import optuna
from optuna.trial import TrialState

from sweeps.blocks import Block, Done, Job, next_job, sweep
from sweeps.queue import JOB, RESULT, ClaimedTrial, GridQueue, TrialQueue
from sweeps.storage import Storage


class CampaignQueue(GridQueue):
    """Runs in the order of claims an hour. Whoever claims one orders them anew, under the lock: what was measured since
    is in the study, and so is all that a campaign has to know to go on after a stop."""

    def __init__(self, blocks: Sequence[Block], storage: Storage, until: float = math.inf) -> None:
        self.blocks, self.until = tuple(blocks), until
        super().__init__(sweep(blocks), storage)

    def done(self) -> Done:
        """As the study has it now."""
        states, jobs = self._states(), {shlex.join(job): job for block in self.blocks for job in block.jobs}
        results = {t.user_attrs.get(JOB): t.user_attrs[RESULT] for t in TrialQueue.finished(self)}
        took = {job: float(results[name].get("wall_seconds") or 0) for name, job in jobs.items() if name in results}
        failed = [jobs[name] for name, seen in states.items() if seen == {TrialState.FAIL}]
        at_work = {TrialState.RUNNING, TrialState.WAITING}
        busy = [jobs[name] for name, seen in states.items() if seen & at_work and name not in results]
        return Done(took, failed, busy)

    def _claim(self) -> ClaimedTrial | None:
        return super()._claim() if time.time() < self.until else None

    def _enqueue(self, study: optuna.Study) -> bool:
        found = next_job(self.blocks, self.done(), self.until - time.time())
        if found is not None:
            self._add(found[1])
        return found is not None

    def _add(self, job: Job) -> None:
        """Without parameters, which Optuna would have to be the same choices as long as the study lasts."""
        self.study.add_trial(optuna.create_trial(state=TrialState.WAITING, user_attrs={JOB: shlex.join(job)}))

    def is_over(self) -> bool:
        if self.state().running:
            return False
        done, left = self.done(), self.until - time.time()
        return left <= 0 or not (done.busy or next_job(self.blocks, done, left))

"""A process that runs a sweep's trials until none is left. Any number of them, on any machine, share a study."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

from bench.errors import Diverged, guarded, of_machine
from bench.output.result import RunResult
from bench.record import Run, read
from sweeps.blocks import Block
from sweeps.campaign_queue import CampaignQueue
from sweeps.patience import DatabaseAway
from sweeps.plan import command, find, pairs
from sweeps.queue import CODE, ERROR, RECORD, RESULT, ClaimedTrial, GridQueue, TrialQueue, value
from sweeps.search import SearchQueue
from sweeps.stale import code_of
from sweeps.storage import Storage, StorageAddress

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Options:
    """What a worker has to know; the same on every machine but for `out`."""

    name: str
    keys: tuple[str, ...]
    storage: str
    out: str
    grace: int
    sampler: str = "grid"
    trials: int = 20
    blocks: tuple[Mapping[str, Any], ...] = ()  # of a campaign, which the ledger makes and no sweep has
    until: float = math.inf  # of a campaign: nothing is begun that would end later

    def queue(self, patient: bool = False) -> TrialQueue:
        storage = Storage(StorageAddress(self.storage, self.grace), patient)
        if self.blocks:
            return CampaignQueue(list(map(Block.of, self.blocks)), storage, self.until)
        sweep = find(self.name, self.keys)
        return GridQueue(sweep, storage) if self.sampler == "grid" else SearchQueue(sweep, storage, self.trials)

    def dumped(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def loaded(cls, text: str) -> Options:
        fields = json.loads(text)
        return cls(**fields | {key: tuple(fields[key]) for key in ("keys", "blocks")})


@dataclass(frozen=True)
class TrialTask:
    """A trial to run, and whom to tell: of the record's folder, and of every round with its merit."""

    claimed: ClaimedTrial
    out: str
    group: str
    on_record: Callable[[Path], None]
    on_round: Callable[[int, float | None], None]


Execute = Callable[[TrialTask], RunResult]  # a benchmark, or whatever is to be timed or tried in its place


def benchmark(task: TrialTask) -> RunResult:
    """One run in this process; an earlier attempt whose record is here goes on where it stopped."""
    from bench.prepare import compose, own_files, plugins, registry
    from bench.run import run

    words, earlier = task.claimed.words, _earlier(task)
    folders: list[Path] = []

    def begin(folder: Path) -> None:
        folders.append(folder)
        task.on_record(folder)

    try:
        if earlier is not None and earlier.result is not None:
            return earlier.result
        if earlier is not None and earlier.status == "interrupted":
            with registry.borrowed():
                own_files.arguments(words)  # the code that they name, and no other, may run again
            return run(earlier.config, resume=earlier.folder, on_record=begin, on_round=task.on_round)
        config = compose.config([*words, f"out={task.out}"])
        plugins.require(config["dataset"])
        own = {"group": task.group, "command": command(words), "keep_model": bool(config["keep_model"])}
        return run(config | own, on_record=begin, on_round=task.on_round)
    except Diverged:
        result = read(folders[-1]).result
        assert result is not None
        return result


def _earlier(task: TrialTask) -> Run | None:
    """The record of an earlier attempt; one that is not this sweep's own, in its folder, is no more than a word of the
    database."""
    folder = task.claimed.record
    if folder is None or folder.resolve().parent != Path(task.out).resolve() or not (folder / "config.yaml").exists():
        return None
    found = read(folder)
    return found if found.config.get("command") == command(task.claimed.words) else None


class TrialWorker:
    """Claims trials and runs them; Ctrl-C or SIGTERM puts the one at hand back into the queue."""

    def __init__(self, options: Options, execute: Execute = benchmark) -> None:
        self.options, self.execute = options, execute
        self.queue = options.queue(patient=True)
        self.stopping = self.busy = False
        self.parent = os.getppid()

    def work(self) -> int:
        """Returns 0 when nothing is left to do, 130 when it was stopped."""
        while not self.stopping and os.getppid() == self.parent:
            claimed = self.queue.claim()
            if claimed is not None:
                self._run(claimed)
            elif self.queue.is_over():
                return 0
            else:
                time.sleep(POLL_SECONDS)  # others are at work; should one die, its trial comes back
        return 130

    def stop(self, signum: int, frame: FrameType | None) -> None:
        self.stopping = True
        if self.busy or self.queue.storage.patience.waiting:
            raise KeyboardInterrupt

    def _run(self, claimed: ClaimedTrial) -> None:
        print(f"\n--- trial {claimed.trial.number}: {command(claimed.words)}", flush=True)
        state, result, attributes = TrialState.FAIL, None, dict[str, Any]()
        code = code_of(pairs(claimed.words)["algo"])
        try:
            with self.queue.storage.heartbeat(claimed.trial):
                self.busy = True
                try:
                    result = self.execute(self._task(claimed))
                finally:
                    self.busy = False
            state = TrialState.COMPLETE
            attributes = {RESULT: result.to_dict(), CODE: code}  # a record may lie on another machine
        except KeyboardInterrupt:
            self.stopping, state = True, TrialState.WAITING
        except optuna.TrialPruned:
            state = TrialState.PRUNED
        except DatabaseAway:  # the trial comes back when its heartbeat is missed, and the run goes on from its record
            raise
        except Exception as error:
            attributes = {ERROR: _sentence(error)}
        self._tell(claimed.trial, state, attributes, result)

    def _task(self, claimed: ClaimedTrial) -> TrialTask:
        def on_record(folder: Path) -> None:
            claimed.trial.set_user_attr(RECORD, str(folder.resolve()))

        return TrialTask(claimed, self.options.out, self.queue.sweep.name, on_record, self.queue.watch(claimed.trial))

    def _tell(
        self, trial: optuna.Trial, state: TrialState, attributes: Mapping[str, Any], result: RunResult | None
    ) -> None:
        try:
            for key, content in attributes.items():
                trial.set_user_attr(key, content)
            if state == TrialState.WAITING:
                self.queue.storage.release(trial)
            else:
                number = None if result is None else value(self.queue.goal, result)
                trial.study.tell(trial, number, state, skip_if_finished=True)
        except UpdateFinishedTrialError:
            print(f"Trial {trial.number} was given to another worker meanwhile: this result is not used.")


def _sentence(error: Exception) -> str:
    from datamodules.base import DataError  # brings torch, which the command itself does without

    known = of_machine(error)
    if known is None and not isinstance(error, DataError):
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"[:2000]
    return str(known or error)


def main() -> int:
    return guarded(_main)


def _main() -> int:
    worker = TrialWorker(Options.loaded(sys.stdin.read()))  # not an argument: it may hold a password
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, worker.stop)
    return worker.work()


if __name__ == "__main__":
    sys.exit(main())

"""A process that runs a sweep's trials until none is left. Any number of them, on any machine, share a study."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

from bench.errors import Diverged, UserError, of_machine
from bench.record import read
from sweeps.plan import find
from sweeps.queue import ERROR, RECORD, RESULT, Claim, Queue, value
from sweeps.search import Search
from sweeps.storage import Place, Storage

KEPT = (  # of a run's result, in the database: a record may lie on another machine
    *("id", "final_accuracy", "best_accuracy", "rounds", "rounds_to_target", "target", "seconds_per_round"),
    *("seconds_to_target", "virtual_seconds", "upload_bytes", "download_bytes", "peer_bytes", "gradient_evaluations"),
    *("wall_seconds", "diverged", "git_revision", "engine"),
)
POLL_SECONDS = 2.0


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

    def queue(self) -> Queue | Search:
        sweep, storage = find(self.name, self.keys), Storage(Place(self.storage, self.grace))
        return Queue(sweep, storage) if self.sampler == "grid" else Search(sweep, storage, self.trials)

    def dumped(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def loaded(cls, text: str) -> Options:
        fields = json.loads(text)
        return cls(**fields | {"keys": tuple(fields["keys"])})


@dataclass(frozen=True)
class Task:
    """A trial to run, and whom to tell: of the record's folder, and of every round with its accuracy."""

    claim: Claim
    out: str
    group: str
    on_record: Callable[[Path], None]
    on_round: Callable[[int, float | None], None]


Execute = Callable[[Task], Mapping[str, Any]]  # a benchmark, or whatever is to be timed or tried in its place


def benchmark(task: Task) -> Mapping[str, Any]:
    """One run in this process; an earlier attempt whose record is here goes on where it stopped."""
    from bench.main import plan, store
    from bench.prepare import registry
    from bench.run import run

    store()
    claim, folder = task.claim, task.claim.record
    earlier = read(folder) if folder is not None and (folder / "config.yaml").exists() else None
    folders: list[Path] = []

    def begin(folder: Path) -> None:
        folders.append(folder)
        task.on_record(folder)

    try:
        if earlier is not None and earlier.result is not None:
            return earlier.result.to_dict()
        if earlier is not None and earlier.status == "interrupted":
            return run(earlier.config, resume=earlier.folder, on_record=begin, on_round=task.on_round).to_dict()
        config = plan([*claim.words, f"out={task.out}"], multirun=False)[0]
        registry.create(config["dataset"]).require()
        config |= {"group": task.group, "command": claim.command}
        return run(config, on_record=begin, on_round=task.on_round).to_dict()
    except Diverged:
        result = read(folders[-1]).result
        assert result is not None
        return result.to_dict()


class Worker:
    """Claims trials and runs them; Ctrl-C or SIGTERM puts the one at hand back into the queue."""

    def __init__(self, options: Options, execute: Execute = benchmark) -> None:
        self.options, self.execute = options, execute
        self.queue = options.queue()
        self.storage = self.queue.storage.optuna
        self.stopping = self.busy = False
        self.parent = os.getppid()

    def work(self) -> int:
        """Returns 0 when nothing is left to do, 130 when it was stopped."""
        while not self.stopping and os.getppid() == self.parent:
            claim = self.queue.claim()
            if claim is not None:
                self._run(claim)
            elif not self.queue.state().open:
                return 0
            else:
                time.sleep(POLL_SECONDS)  # others are at work; should one die, its trial comes back
        return 130

    def stop(self, signum: int, frame: FrameType | None) -> None:
        self.stopping = True
        if self.busy:
            raise KeyboardInterrupt

    def _run(self, claim: Claim) -> None:
        print(f"\n--- trial {claim.trial.number}: {claim.command}", flush=True)
        state, result = TrialState.FAIL, None
        attributes: dict[str, Any] = {}
        try:
            with self._heartbeat(claim):
                self.busy = True
                try:
                    result = self.execute(self._task(claim))
                finally:
                    self.busy = False
            state = TrialState.COMPLETE
            attributes = {RESULT: {key: result[key] for key in KEPT if key in result}}
        except KeyboardInterrupt:
            self.stopping, state = True, TrialState.WAITING
        except optuna.TrialPruned:
            state = TrialState.PRUNED
        except Exception as error:
            attributes = {ERROR: _sentence(error)}
        self._tell(claim, state, attributes, result)

    def _task(self, claim: Claim) -> Task:
        def on_record(folder: Path) -> None:
            self.storage.set_trial_user_attr(claim.id, RECORD, str(folder.resolve()))

        return Task(claim, self.options.out, self.queue.sweep.name, on_record, self.queue.watch(claim))

    def _tell(
        self, claim: Claim, state: TrialState, attributes: Mapping[str, Any], result: Mapping[str, Any] | None
    ) -> None:
        try:
            for key, content in attributes.items():
                self.storage.set_trial_user_attr(claim.id, key, content)
            values = None if result is None else [value(self.queue.goal, result)]
            self.storage.set_trial_state_values(claim.id, state, values)
        except UpdateFinishedTrialError:
            print(f"Trial {claim.trial.number} was given to another worker meanwhile: this result is not used.")

    @contextmanager
    def _heartbeat(self, claim: Claim) -> Iterator[None]:
        """Tells the others that this worker is alive."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(max(1, self.options.grace // 4)):
                self.storage.record_heartbeat(claim.id)

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _sentence(error: Exception) -> str:
    from datamodules.base import DataError  # brings torch, which the command itself does without

    known = of_machine(error)
    if known is None and not isinstance(error, DataError):
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"[:2000]
    return str(known or error)


def main() -> int:
    worker = Worker(Options.loaded(sys.argv[1]))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, worker.stop)
    try:
        return worker.work()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

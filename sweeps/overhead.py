"""python -m sweeps.overhead: what a trial costs beside the benchmark it runs, measured with runs that do nothing."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from bench.errors import Parser, UserError, guarded
from bench.output.result import RunResult
from sweeps.worker import Options, TrialTask, TrialWorker

NAME, SETTING = "fedagg/fig12", "dist=IID;alpha=0.1"


def nothing(task: TrialTask) -> RunResult:
    """A run without training, with all that a run tells its sweep."""
    task.on_record(Path(task.out))
    return RunResult(id="", rounds=0, final=0.5, best=0.5, rounds_to_target=None, target=0.6)


def measure(trials: int, storage: str, out: str) -> float:
    """Seconds a trial, from the claim to the recorded result, enqueuing included."""
    seeds = ",".join(map(str, range(trials)))
    worker = TrialWorker(Options(NAME, (f"setting={SETTING}", f"seed={seeds}"), storage, out, 120), nothing)
    began = time.perf_counter()
    worker.work()
    spent = time.perf_counter() - began
    if (state := worker.queue.state()).finished != trials:
        raise UserError(f"{state.finished} of {trials} trials are finished: the storage was not empty.")
    return spent / trials


def main() -> int:
    parser = Parser(prog="python -m sweeps.overhead", description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--storage", metavar="URL", help="an empty database; default: a temporary SQLite file")
    args = parser.parse_args()

    def work() -> int:
        with tempfile.TemporaryDirectory() as folder:
            seconds = measure(args.trials, args.storage or f"sqlite:///{folder}/sweeps.db", folder)
        print(f"{1000 * seconds:.0f} ms a trial, {args.trials} trials")
        return 0

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())

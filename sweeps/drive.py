"""What the command does: start workers, say how far they are, stop them cleanly, and show what came out."""

from __future__ import annotations

import hashlib
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from optuna.trial import TrialState

from bench.output.progress import duration
from bench.output.result import RunResult
from bench.record import make_folder, write_atomically
from sweeps import fairness, results
from sweeps.pictures import draw
from sweeps.plan import GOALS
from sweeps.queue import JOB, RESULT, QueueState, TrialQueue, value
from sweeps.search import SearchQueue
from sweeps.stale import stale
from sweeps.worker import Options

POLL_SECONDS = 2.0
SAY_SECONDS = 30.0  # without news, on something that is not a terminal


@dataclass
class Drive:
    """One start of the command."""

    options: Options
    workers: int
    queue: TrialQueue
    more: tuple[str, ...] = ()  # options of the command beside these
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    _said: tuple[float, QueueState | None] = (-math.inf, None)
    _ended: float = 0.0  # when a run last did

    @property
    def folder(self) -> Path:
        return Path(self.options.out) / slug(self.queue)

    def run(self) -> int:
        """Until all is done (0), something failed (1) or it is interrupted (130)."""
        make_folder(self.folder)
        first = self.queue.state()
        failed = f", {first.failed} failed" if first.failed else ""
        older = stale(self.queue).text()
        print(
            f"{self.queue.sweep.title}: {first.total} runs, {first.finished} finished{failed} before{older}", flush=True
        )
        if first.open:
            print(f"storage    {self.queue.storage.address.shown}\nlogs       {self.folder}/worker-*.log", flush=True)
            for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs start with SIGINT ignored
                signal.signal(number, _interrupt)
            try:
                self._start()
                self._wait(first)
            except KeyboardInterrupt:
                self._stop()
                print(f"\nStopped: {words(self.queue.state())}. To go on: {self.command}", flush=True)
                return 130
            finally:
                self._signal(signal.SIGINT)  # whatever ended us, such as a reader that went away
        return self._end()

    @property
    def command(self) -> str:
        given = [*self.options.keys, *(["sampler=tpe"] if self.options.sampler == "tpe" else [])]
        more = [
            "--storage",
            self.queue.storage.address.shown,
            "--out",
            self.options.out,
            "--workers",
            str(self.workers),
        ]
        return shlex.join(["python", "-m", "sweeps", self.options.name, *given, *more, *self.more])

    def _start(self) -> None:
        threads = str(max(1, (os.cpu_count() or 1) // self.workers))  # more threads than cores: fifty times slower
        env = {"OMP_NUM_THREADS": threads} | os.environ
        for number in range(self.workers):
            path = self.folder / f"worker-{time.strftime('%Y%m%d-%H%M%S')}-{number}.log"
            with path.open("wb") as log:
                # a session of its own: Ctrl-C on the terminal reaches it through us, once
                process = subprocess.Popen(
                    [sys.executable, "-m", "sweeps.worker"],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=env,
                    start_new_session=True,
                )
            self.processes.append(process)
            assert process.stdin is not None
            with process.stdin as pipe:
                pipe.write(self.options.dumped().encode())

    def _wait(self, first: QueueState) -> None:
        stopped: Counter[int] = Counter()  # looks in a row at which a worker was
        while at_work := [process for process in self.processes if process.poll() is None]:
            self._say(first)
            with suppress(subprocess.TimeoutExpired):
                at_work[0].wait(POLL_SECONDS)
            pids = [process.pid for process in self.processes if process.poll() is None and _is_stopped(process.pid)]
            stopped = Counter({pid: stopped[pid] + 1 for pid in pids})
            self._end_stopped(stopped)
        self._say(first, last=True)

    def _end_stopped(self, stopped: Counter[int]) -> None:
        """A worker that was stopped (SIGSTOP) is missed by the others after --grace; then it is of no use any more."""
        for process in self.processes:
            seconds = stopped[process.pid] * POLL_SECONDS
            if stopped[process.pid] == 1:
                print(
                    f"warning: worker {process.pid} was stopped: unless it goes on (kill -CONT {process.pid}) within "
                    f"{self.options.grace} s, it is ended and its run begins again from its checkpoint.",
                    file=sys.stderr,
                    flush=True,
                )
            elif seconds > self.options.grace:
                process.kill()

    def _stop(self) -> None:
        """The first Ctrl-C lets every worker write a checkpoint, the second stops them at once."""
        print("\nStopping: each worker writes a checkpoint; Ctrl-C again stops at once.", flush=True)
        for attempt in (signal.SIGINT, signal.SIGINT, signal.SIGKILL):
            self._signal(attempt)
            try:
                for process in self.processes:
                    process.wait()
                return
            except KeyboardInterrupt:
                continue

    def _signal(self, number: signal.Signals) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(number)

    def _say(self, first: QueueState, last: bool = False) -> None:
        state, (when, before) = self.queue.state(), self._said
        news = before is None or (state.finished, state.failed) != (before.finished, before.failed)
        if not (last or news or time.monotonic() - when > SAY_SECONDS) or (last and state == before):
            return
        now = time.monotonic()
        self._said, self._ended = (now, state), now if news else self._ended
        done = state.finished + state.failed - first.finished - first.failed
        left = (self._ended - self.began) / done * state.open - (now - self._ended) if done else 0.0
        rest = f", about {duration(left)} left" if state.open and left > 0 else ""
        print(f"{words(state)}{best(self.queue)}{rest}", flush=True)

    def _end(self) -> int:
        state = self.queue.state()
        show(self.queue, self.folder)
        self._say_what_failed()
        if state.open:
            print(f"Not finished: {words(state)}. To go on: {self.command}", file=sys.stderr, flush=True)
        return 1 if state.open or state.failed else 0

    def _say_what_failed(self) -> None:
        if listed := results.failures(self.queue.sweep, self.queue.trials()):
            print("\nFailed:\n" + "\n".join(listed), file=sys.stderr)
            print(f"Once the reason is gone: {self.command} --retry-failed", file=sys.stderr, flush=True)
        if died := [process.returncode for process in self.processes if process.returncode not in (0, 130)]:
            print(f"{len(died)} worker(s) ended early (exit codes {died}): see {self.folder}/.", file=sys.stderr)


def show(queue: TrialQueue, folder: Path) -> None:
    """Writes and prints the table; the plots beside it."""
    make_folder(folder)
    sweep = queue.sweep
    if isinstance(queue, SearchQueue):
        text = fairness.markdown(queue)
    else:
        finished = results.by_job(queue.trials())
        if not finished:
            print("\nNo run is finished.")
            return
        text = results.markdown(sweep, results.rows(sweep, finished))
        write_atomically(folder / "results.csv", results.table_csv(sweep, finished))
    write_atomically(folder / "results.md", f"# {sweep.title}\n\n{text}\n")
    many = len(queue.studies) > 1
    drawn = [path for n, study in enumerate(queue.studies) for path in draw(study, folder, f"{n:02}-" if many else "")]
    none = "; no plots: fewer than two runs have a number to draw (never and diverged are none)"
    plots = f", plots: {folder}/*.html and *.png" if drawn else none
    print(f"\n{text}\n\nTable: {folder}/results.md{plots}")


def words(state: QueueState) -> str:
    return f"{state.finished}/{state.total} finished, {state.running} running, {state.failed} failed"


def best(queue: TrialQueue) -> str:
    """The best trial so far: by the sweep's goal, or by its metric while nothing has reached the target."""
    done = [t for t in queue.trials() if t.state == TrialState.COMPLETE and t.value is not None]
    if not done:
        return ""
    outcomes = {t.number: RunResult.from_dict(t.user_attrs[RESULT], "The sweep's database") for t in done}
    if numbered := [t for t in done if math.isfinite(t.value or 0.0)]:
        choose = min if GOALS[queue.goal] == "minimize" else max
        goal, trial = queue.goal, choose(numbered, key=lambda t: t.value or 0.0)
    else:
        goal, trial = "best", max(done, key=lambda t: value("best", outcomes[t.number]))
    found = outcomes[trial.number]
    number = found.number(goal) or 0.0
    words = f"{number:g} rounds to the target" if goal == "rounds_to_target" else found.metric.text(number)
    changed = [word for word in shlex.split(trial.user_attrs[JOB]) if word.startswith("algo")]
    return f"; best {words} ({' '.join(changed)})"


def slug(queue: TrialQueue) -> str:
    """A folder's name for the sweep, unique for its title."""
    plain = re.sub(r"[^A-Za-z0-9=.,-]+", "-", queue.title)
    return plain if len(plain) <= 100 else f"{plain[:90]}-{hashlib.sha256(queue.title.encode()).hexdigest()[:8]}"


def _is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    except OSError:  # gone, or no Linux
        return False


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt

"""Worker processes on this machine, forked: they share data, model and settings with the process that starts them."""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import torch

from bench.engine.shared import Arena
from bench.engine.steps import Steps
from bench.engine.worker_service import WorkerService, answer

LOOK_SECONDS = 5.0  # how often a process that waits for a worker looks whether it moves
STILL, GIVEN_UP = 6, 12  # looks in a row that see no movement: a warning, and the end of the worker


@dataclass(eq=False)
class ForkedWorker:
    process: ForkProcess
    connection: Connection
    arena: Arena
    call: int | None = None  # which it works on, or has answered without the answer having been taken
    busy: bool = False
    moved: str = ""  # the processor time that it had when last looked at
    still: int = 0  # looks since


class Forked:
    """This process and count - 1 others. Has to be made before anything starts threads: a fork copies only the one that
    forks, and the others' locks.

    A worker that dies, or is stopped for a minute, is not replaced: this process or another does its part again.
    """

    def __init__(self, service: WorkerService, count: int) -> None:
        self.service, self.count = service, count
        service.engine.steps = Steps(count)
        context = multiprocessing.get_context("fork")
        arenas = [_arena(count) for _ in range(count - 1)]
        pipes = [context.Pipe() for _ in arenas]
        life, line = context.Pipe(duplex=False)
        mine: list[Connection] = [line, *(end for end, _ in pipes)]
        self.workers = []
        for number, arena in enumerate(arenas):
            own, theirs = pipes[number]
            close = [*mine, *(end for k, (_, end) in enumerate(pipes) if k != number)]
            process = context.Process(
                target=_serve, args=(service, number + 1, arena, theirs, life, close), daemon=True
            )
            process.start()
            self.workers.append(ForkedWorker(process, own, arena))
        for _, theirs in pipes:
            theirs.close()
        life.close()
        self._end = Finalize(self, _end, (self.workers, line), exitpriority=10)  # before multiprocessing's own

    def map(self, name: str, calls: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """A worker is given its next call once its last answer has been taken, since that lies in shared memory. When
        all of them are at work, this process is, too: if it only waited, it would take a core from them to do so."""
        todo, answers = list(range(len(calls))), dict[int, Any]()
        try:
            for number in range(len(calls)):
                while number not in answers:
                    self._give(name, calls, todo)
                    self._take(todo, answers, patient=not todo)
                    if todo and number not in answers:
                        own = todo.pop()
                        answers[own] = getattr(self.service, name)(*calls[own])
                yield answers.pop(number)
                for worker in self.workers:
                    worker.call = None if worker.call == number else worker.call
        finally:
            for worker in self.workers:
                worker.call = None  # an answer that still comes is nobody's

    def close(self) -> None:
        self._end()

    def _give(self, name: str, calls: Sequence[tuple[Any, ...]], todo: list[int]) -> None:
        for worker in list(self.workers):
            if len(todo) > 1 and not worker.busy and worker.call is None:
                try:
                    worker.connection.send_bytes(worker.arena.write((name, calls[todo[0]])))
                except OSError:
                    self._lost(worker)
                    continue
                worker.call, worker.busy = todo.pop(0), True

    def _take(self, todo: list[int], answers: dict[int, Any], patient: bool) -> None:
        """What workers have answered; waits for one if `patient`. `todo` gets back what a dead one was at."""
        busy = [worker.connection for worker in self.workers if worker.busy]
        while not (ready := wait(busy, LOOK_SECONDS if patient else 0)) and patient:
            self._look()
        for worker in [worker for worker in self.workers if worker.connection in ready]:
            try:
                data = worker.connection.recv_bytes()
            except (EOFError, OSError):
                if worker.call is not None:
                    todo.insert(0, worker.call)
                self._lost(worker)
                continue
            worker.busy = False
            if worker.call is not None:
                answer, error = worker.arena.read(data)
                if error is not None:
                    raise error
                answers[worker.call] = answer

    def _look(self) -> None:
        """A worker that uses no processor time does not compute: it was stopped, or hangs. Looks are counted, not
        seconds, since this process may have been stopped as well."""
        for worker in self.workers:
            moved = _processor_time(worker.process.pid)
            worker.still = worker.still + 1 if worker.busy and moved == worker.moved else 0
            worker.moved = moved
            if worker.still == STILL:
                left = (GIVEN_UP - STILL) * LOOK_SECONDS
                print(
                    f"warning: worker process {worker.process.pid} does not answer (was it stopped?): unless it goes "
                    f"on within {left:.0f} s, it is ended and its work done again.",
                    file=sys.stderr,
                    flush=True,
                )
            elif worker.still >= GIVEN_UP:
                worker.process.kill()

    def _lost(self, worker: ForkedWorker) -> None:
        self.workers.remove(worker)
        worker.process.join()
        worker.connection.close()
        code = worker.process.exitcode
        killed = " (killed; was there enough memory?)" if code == -signal.SIGKILL else ""
        left = f"{len(self.workers) + 1} of {self.count} go on"
        print(
            f"warning: a worker process ended with exit code {code}{killed}: its work is done again, {left}.",
            file=sys.stderr,
            flush=True,
        )


def _arena(count: int) -> Arena:
    """As large as all memory, since only what is used counts; smaller where addresses are limited."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    size = size if limit == resource.RLIM_INFINITY else min(size, limit // (8 * count))
    while True:
        try:
            return Arena(size)
        except OSError:
            if size < 2**20:
                raise
            size //= 2


def _processor_time(pid: int | None) -> str:
    """In user and kernel mode; as good as a number to see whether it grows. Linux only: elsewhere it always does."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return str(time.monotonic())
    return " ".join(fields[11:13])


def _end(workers: list[ForkedWorker], line: Connection) -> None:
    """They keep nothing, so nothing is lost when they are killed."""
    for worker in workers:
        worker.process.kill()
    for worker in workers:
        worker.process.join()
        worker.process.close()
        worker.connection.close()
    workers.clear()
    line.close()


def _serve(
    service: WorkerService, number: int, arena: Arena, connection: Connection, life: Connection, close: list[Connection]
) -> None:
    """Answers until the other end is closed. Signals to the whole group are for the process that started this one."""
    service.engine.steps.own = number
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    for end in close:
        end.close()
    gc.freeze()
    torch.set_num_threads(1)
    threading.Thread(target=_end_with, args=(life,), daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            name, call = arena.read(connection.recv_bytes())
            connection.send_bytes(answer(service, name, call, partial(arena.write, answer=True)))


def _end_with(life: Connection) -> None:
    """Ends this process, whatever it is doing, when the one that started it is gone."""
    with suppress(EOFError, OSError):
        life.recv_bytes()
    os._exit(0)

"""Workers on a Ray cluster: actors that load data and model themselves; calls carry vectors and rules."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.engine import shared
from bench.engine.worker_service import WorkerService, answer
from bench.errors import UserError, first_line, program

REACH_SECONDS, START_SECONDS = 5.0, 300.0
LOOK_SECONDS = 0.5  # how often a process that waits for an actor looks whether it is to stop
TRIES = 5  # actors that may die over one and the same call
Message = tuple[bytes, list[np.ndarray]]
Factory = Callable[[], WorkerService]  # is sent to the actors, and called there


def pack(message: Any) -> Message:
    arrays: list[np.ndarray] = []

    def put(value: Tensor) -> int:
        arrays.append(shared.to_bytes(value))
        return len(arrays) - 1

    return shared.write(message, put), arrays


def unpack(message: Message) -> Any:
    content, arrays = message

    def get(place: shared.StoredTensor, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        assert isinstance(place, int)
        return shared.from_bytes(arrays[place], dtype, shape)

    return shared.read(content, get)


def cores(address: str) -> int:
    return int(connect(address).cluster_resources().get("CPU", 0))


def connect(address: str) -> Any:
    """The module `ray`, in touch with the cluster."""
    if find_spec("ray") is None:
        raise UserError(f"engine.address={address} needs Ray: pip install '.[ray]', or leave engine.address out.")
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # or it writes into the home folder
    import ray

    if ray.is_initialized():
        return ray
    if ":" in (known := _known_address() if address == "auto" else address):
        _reach(known)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # Ray has several kinds, none of its own
        text = first_line(error)
        raise UserError(
            f"engine.address={address}: no Ray cluster answers ({text}); ray start --head begins one."
        ) from None
    return ray


def _known_address() -> str:
    """Of the cluster that this machine was last part of, which may be gone; empty: none is known."""
    here = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")
    try:
        return os.environ.get("RAY_ADDRESS") or here.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _reach(address: str) -> None:
    """Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UserError(f"engine.address={address} cannot be reached: {error}.") from None


class Actor:
    """A process of the cluster that answers for a WorkerService of its own."""

    def __init__(self, factory: Factory) -> None:
        self.service = factory()

    def ready(self) -> None:
        pass

    def call(self, content: bytes, arrays: list[np.ndarray]) -> Message:
        name, call = unpack((content, arrays))
        return answer(self.service, name, call, pack)


class Actors:
    """An actor that dies is replaced, and its call done again."""

    def __init__(self, factory: Factory, service: WorkerService, count: int, address: str) -> None:
        self.service, self.count, self.factory = service, count, factory
        mine = "ray" not in sys.modules or not sys.modules["ray"].is_initialized()
        if (there := cores(address)) < count:
            raise UserError(f"engine.workers={count} is more than the {there} processors of the cluster.")
        self.ray = connect(address)
        self._class = self.ray.remote(num_cpus=1, runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}})(Actor)
        self.actors = [self._actor() for _ in range(count)]
        self._end = Finalize(self, _end, (self.ray, self.actors, mine), exitpriority=10)
        self._wait()

    def map(self, name: str, calls: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        if len(calls) == 1 < self.count:
            yield getattr(self.service, name)(*calls[0])
            return
        try:
            yield from self._map(name, calls)
        except (self.ray.exceptions.RayError, ConnectionError) as error:
            why = first_line(error) or type(error).__name__
            raise UserError(
                f"The Ray cluster is lost ({why}): {program()} resume=FOLDER, the run's, goes on once "
                f"it is back, or with engine.address=null on this machine alone."
            ) from None

    def _map(self, name: str, calls: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        todo, answers = list(range(len(calls))), dict[int, Any]()
        at_work: dict[Any, tuple[int, int]] = {}  # what will be answered: by which actor, to which call
        idle, deaths = list(range(self.count)), 0
        for number in range(len(calls)):
            while number not in answers:
                while todo and idle and len(answers) < 2 * self.count:
                    actor, call = idle.pop(0), todo.pop(0)
                    at_work[self.actors[actor].call.remote(*pack((name, calls[call])))] = actor, call
                done = self._one_of(list(at_work))
                actor, call = at_work.pop(done)
                idle.append(actor)
                try:
                    answers[call], error = unpack(self.ray.get(done))
                except self.ray.exceptions.RayActorError:
                    deaths += 1
                    if deaths > TRIES:
                        raise
                    todo.insert(0, call)
                    self._replace(actor)
                    continue
                if error is not None:
                    raise error
            yield answers.pop(number)

    def _one_of(self, at_work: list[Any]) -> Any:
        """The next that is done; another machine does not see that a run is to stop."""
        while True:
            self.service.engine.steps.look()
            done, _ = self.ray.wait(at_work, num_returns=1, timeout=LOOK_SECONDS)
            if done:
                return done[0]

    def close(self) -> None:
        self._end()

    def _actor(self) -> Any:
        return self._class.options(scheduling_strategy="SPREAD").remote(self.factory)

    def _replace(self, number: int) -> None:
        print(
            "warning: a Ray actor died: another takes its place and does its work again.", file=sys.stderr, flush=True
        )
        self.actors[number] = self._actor()

    def _wait(self) -> None:
        try:
            self.ray.get([actor.ready.remote() for actor in self.actors], timeout=START_SECONDS)
        except self.ray.exceptions.GetTimeoutError:
            self.close()
            raise UserError(
                f"The cluster did not start {self.count} actors within {START_SECONDS:.0f} s: is it busy? "
                f"A smaller engine.workers may help."
            ) from None
        except self.ray.exceptions.RayError as error:
            self.close()
            last = str(error).strip().rpartition("\n")[2].rstrip(".")
            raise UserError(f"The run cannot be set up on the cluster: {last}.") from None


def _end(ray: Any, actors: list[Any], mine: bool) -> None:
    with suppress(Exception):  # the cluster may be gone already, and with it the actors
        for actor in actors:
            ray.kill(actor)
        if mine:
            ray.shutdown()

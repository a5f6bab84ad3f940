"""Each variant of `python -m bench speed` in a process of its own, so that its memory is its own, run in turns."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any, cast

import torch
from torch import nn

from bench.errors import UserError
from bench.metrics import MB
from bench.prepare.resources import peak_memory
from bench.speed.peers import SPEC
from bench.speed.work import LR, Round, Workload

PEERS = ("pfl", "pfl x 2", "flower")


class Own:
    """A variant of ours, forked, that runs a round when told to."""

    def __init__(self, make: Callable[[], Round]) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(make, theirs, self._pipe))
        self._process.start()
        theirs.close()
        self.refusal: str | None = self._receive()[1]  # why it cannot run the workload

    def round(self) -> tuple[float, float | None]:
        """Seconds, and those of them that were not local training."""
        self._pipe.send(True)
        return cast("tuple[float, float | None]", self._receive())

    def peak_mb(self) -> float:
        return _peak_mb(cast(int, self._process.pid))

    def close(self) -> None:
        self._pipe.close()
        self._process.join()

    def _receive(self) -> Any:
        try:
            return self._pipe.recv()
        except EOFError:
            self._process.join()
            raise UserError(f"A variant ended with exit code {self._process.exitcode}; its error is above.") from None


def _serve(make: Callable[[], Round], pipe: Connection, other: Connection) -> None:
    other.close()
    torch.set_num_threads(1)
    with suppress(OSError):  # its peak is not to begin with that of the process it was forked from
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    try:
        run = make()
    except UserError as error:
        pipe.send((None, str(error)))
        return
    pipe.send((None, None))
    try:
        while pipe.recv():
            pipe.send(run())
    except EOFError:
        return


class Peer:
    """The same of another simulator, in its own Python."""

    refusal = None

    def __init__(self, python: Path, name: str, load: Workload) -> None:
        self.name, self._folder = name, Path(tempfile.mkdtemp(prefix="fedbench-peer-"))
        shutil.copy(Path(__file__).with_name("peers.py"), self._folder)
        start = [str(python)]
        if name == "pfl x 2":
            start += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        home = {"HOME": str(self._folder), "PYTHONPATH": str(self._folder), "OMP_NUM_THREADS": "1"}
        quiet = {"RAY_AUTH_MODE": "disabled", "FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
        spec = json.dumps(specification(load))
        self._log = (self._folder / "log").open("w")
        self._process = subprocess.Popen(
            [*start, str(self._folder / "peers.py"), name.split()[0]],
            env={**os.environ, **home, **quiet, SPEC: spec},
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def round(self) -> tuple[float, float | None]:
        stdin, stdout = cast(IO[str], self._process.stdin), cast(IO[str], self._process.stdout)
        try:
            stdin.write("go\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            tail = " ".join((self._folder / "log").read_text().splitlines()[-3:])
            raise UserError(f"{self.name} ended without an answer: {tail}")
        return json.loads(line)["seconds"], None

    def peak_mb(self) -> float:
        return _peak_mb(self._process.pid)

    def close(self) -> None:
        cast(IO[str], self._process.stdin).close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def specification(load: Workload) -> dict[str, Any]:
    """The work in words that another program understands."""
    return {
        "layers": [_layer(layer) for layer in cast(nn.Sequential, load.net())],
        "shape": load.shape,
        "classes": load.classes,
        "batch_size": load.batch_size,
        "samples": load.batch_size * load.steps,
        "passes": [load.passes(client) for client in range(load.clients)],
        "lr": LR,
    }


def _layer(layer: nn.Module) -> list[Any]:
    arguments: list[Any] = []
    match layer:
        case nn.Linear():
            arguments = [layer.in_features, layer.out_features]
        case nn.Conv2d():
            arguments = [layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding]
        case nn.MaxPool2d():
            arguments = [layer.kernel_size]
    return [type(layer).__name__, *arguments]


def _peak_mb(pid: int) -> float:
    """The most memory its processes have held; what they share counts in each."""
    return sum(map(peak_memory, _family(pid))) / MB


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from _family(int(child))

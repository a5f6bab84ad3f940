"""What a run will take, before it starts: a few steps are measured, and the virtual clock is run without training.

Nothing of the run is touched: the measured loops are copies that begin with the same model, every random stream is
named, and what torch, numpy and Python have drawn so far is put back.
"""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from algorithms.base import Trained, Updates, Upload
from bench.learning.evaluate import CHUNK
from bench.output.progress import roughly
from bench.prepare.assemble import Parts
from bench.prepare.budget import size_text
from bench.prepare.resources import peak_memory
from bench.simulation.dispatch import Dispatch
from bench.simulation.flight import InFlight
from bench.simulation.jobs import Job, Learned, Result
from bench.simulation.loop import FederatedLoop
from bench.simulation.mail import Letter
from bench.simulation.tally import Tally

QUIET = 60.0  # seconds; a shorter run begins without a word
BUDGET = 0.2  # seconds for each thing that is measured; one step at least
Copy = TypeVar("Copy", bound=FederatedLoop)
WHOLE_PASSES = {"full_gradient", "start_loss", "prototypes"}  # what a method needs of all samples of a device


@dataclass(frozen=True)
class Forecast:
    """Of the whole run, in the units of result.json, and the measured seconds behind it."""

    seconds: float
    memory_bytes: float
    upload_bytes: float
    download_bytes: float
    peer_bytes: float
    step_seconds: float
    job_seconds: float  # of a device beside its steps
    aggregation_seconds: float
    evaluation_seconds: float  # of one model

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


class Dry(FederatedLoop):
    """The run as the clock sees it: who works when and what is sent, which no training decides."""

    def _result(self, job: Job) -> Result:
        nothing = torch.zeros(1)
        work = job.epochs * job.steps_per_epoch
        return Result(
            nothing,
            nothing,
            {},
            {},
            nothing,
            steps=0,
            effective_steps=0,
            lr_sum=0,
            loss=0,
            finite=True,
            evaluations=work,
        )

    def gradient(self, letter: Letter) -> Tensor:
        return torch.zeros(1)

    def learn(self, sent: Dispatch, which: Sequence[int]) -> Learned:
        nothing = torch.zeros(len(which))
        work = [sent.epochs[k] * sent.steps_per_epoch[k] for k in which]
        trained = Trained(
            end=nothing, steps=nothing, effective_steps=nothing, lr_sum=nothing, rates=nothing, loss=nothing
        )
        return Learned(trained, Upload(nothing[:, None]), work)

    def merge(self, updates: Callable[[], Updates], tally: Tally) -> None:
        pass


@dataclass(frozen=True)
class Amounts:
    """How much of everything the whole run is."""

    rounds: float
    jobs: float
    steps: float
    aggregations: float
    clock_seconds: float
    up: float
    down: float
    peer: float


class Probe(FederatedLoop):
    """Trains a few devices for a few steps."""

    def largest(self, devices: int) -> list[Job]:
        """Jobs of the devices with most samples among those that begin."""
        self.jobs = InFlight()
        self._dispatch(self.first())
        return sorted(self.jobs.values(), key=lambda job: -float(self.fed.samples[job.client]))[:devices]

    def seconds(self, jobs: Sequence[Job], steps: int, epochs: int) -> tuple[float, float]:
        """Of training these jobs on `steps` mini-batches of each; also how many steps that were."""
        whole = self.engine.batches
        self.engine.batches = whole.shortened([job.client for job in jobs], steps)
        for job in jobs:
            job.epochs, job.steps_per_epoch = epochs, self.engine.batches.steps_per_epoch(job.client)
        begin = time.perf_counter()
        self._train(list(jobs))
        elapsed = time.perf_counter() - begin
        self.engine.batches = whole
        return elapsed, sum(job.result.steps for job in jobs if job.result)

    def aggregation(self, jobs: Sequence[Job]) -> float:
        """Seconds of aggregating these jobs; they become the next version."""
        begin = time.perf_counter()
        self.server = self.algo.aggregate(
            self.server, self._seen(self._updates(sorted(jobs, key=lambda job: job.client))), self.fed
        )
        elapsed = time.perf_counter() - begin
        self.version, self.trace = self.version + 1, None
        return elapsed


def measure(config: Mapping[str, Any], parts: Parts) -> Forecast:
    """`parts` as they were built, before their first round."""
    with _untouched(parts):
        amounts = _amounts(parts.loop, config["virtual_seconds"])
        step, job, aggregation = _seconds(parts.loop, amounts.steps)
        evaluation, figures = _evaluation(parts), parts.evaluate
        (models, tuning), (all_models, all_tuning) = figures.effort(False), figures.effort(True)
    evaluations = max(0.0, amounts.rounds / config["eval_every"] - 1)
    per_epoch = amounts.steps / max(amounts.jobs, 1) / config["epochs"]
    shared = (
        (amounts.steps + per_epoch * (tuning * evaluations + all_tuning)) * step
        + amounts.jobs * job
        + (models * evaluations + all_models) * evaluation
    )
    seconds = shared / parts.workers.count + amounts.aggregations * aggregation + amounts.clock_seconds
    return Forecast(seconds, _memory(parts), amounts.up, amounts.down, amounts.peer, step, job, aggregation, evaluation)


def sentence(forecast: Forecast, mail: bool, shorter: float | None = None) -> str:
    """What is printed; `shorter`: seconds of the same command at scale=cpu."""
    kinds = {"up": forecast.upload_bytes, "down": forecast.download_bytes, "between devices": forecast.peer_bytes}
    split = ", ".join(f"{size_text(size)} {name}" for name, size in kinds.items() if size)
    more = " and what devices send each other" if mail and not forecast.peer_bytes else ""
    text = f"about {roughly(forecast.seconds)} here, {size_text(forecast.memory_bytes)} of memory, "
    text += f"{size_text(sum(kinds.values()))} of traffic ({split}){more}"
    return text if shorter is None else f"{text}; scale=cpu takes about {roughly(shorter)}"


def _amounts(loop: FederatedLoop, virtual_seconds: float | None) -> Amounts:
    """As many rounds as a moment allows, and the rest in proportion."""
    dry = _copy(loop, Dry)
    begin, jobs = time.perf_counter(), 0
    while not dry.finished and (dry.round == 0 or time.perf_counter() - begin < BUDGET):
        dry.advance()
        jobs += len(dry.ended)
    done = dry.round / dry.rules.rounds
    if virtual_seconds is not None:
        done = max(done, dry.clock.now / virtual_seconds)
    done = 1.0 if dry.finished else done
    counts = (dry.round, jobs, dry.evaluations, dry.version, time.perf_counter() - begin)
    return Amounts(*(n / done for n in (*counts, dry.traffic.up, dry.traffic.down, dry.traffic.peer)))


def _seconds(loop: FederatedLoop, total: float) -> tuple[float, float, float]:
    """Of a local step, of a job beside its steps, and of an aggregation; one step is enough to see that a run of
    `total` steps is short."""
    probe = _copy(loop, Probe)
    buffer, stack = loop.rules.schedule.buffer, min(loop.batch, loop.rules.schedule.concurrency)
    one = probe.largest(1)
    probe.seconds(one, 1, 1)  # warm-up
    aggregation = probe.aggregation(one)  # some methods do more once they know something
    alone = probe.seconds(probe.largest(1), 1, 1)[0]
    if alone * total < QUIET / 4:
        return alone, 0.0, aggregation

    together = max(1, min(stack, int(BUDGET / alone)))
    jobs = probe.largest(together)
    most = max(loop.engine.batches.passes(job.client) for job in jobs)
    steps = max(1, min(most, int(BUDGET / (alone * together))))
    aggregated = jobs[:buffer]
    a, short = probe.seconds(jobs, steps, 1)
    aggregation = probe.aggregation(aggregated) * buffer / len(aggregated)
    if loop.fed.epochs == 1:
        return a / short, 0.0, aggregation
    b, long = probe.seconds(probe.largest(together), steps, 2)
    step = min(max((b - a) / (long - short), 0.3 * b / long), b / long)
    job = max(0.0, b - step * long) / together
    if loop.algo.requires & WHOLE_PASSES:
        job *= most / steps
    return step, job, aggregation


def _evaluation(parts: Parts) -> float:
    """Seconds of testing one model."""
    evaluate, w = parts.evaluate.evaluate, parts.loop.server["w"]
    evaluate.sums(w, [0])  # warm-up
    begin = time.perf_counter()
    evaluate.sums(w, [0])
    return (time.perf_counter() - begin) * max(1.0, len(evaluate.y) / CHUNK)


def _memory(parts: Parts) -> float:
    """What the process took at most while it loaded and measured, and what only a whole round fills."""
    if parts.loop.server["w"].is_cuda:
        return sum(parts.memory.values())
    there = {"the model", "the data", "the program"}
    return peak_memory() + sum(size for name, size in parts.memory.items() if name not in there)


def _copy(loop: FederatedLoop, kind: Callable[..., Copy]) -> Copy:
    return kind(loop.algo, loop.fed, copy.copy(loop.engine.alone), loop.devices, loop.rules, loop.server["w"])


@contextmanager
def _untouched(parts: Parts) -> Iterator[None]:
    """Whatever a user's module draws or counts while it is measured has not happened."""
    buffers = {name: value.clone() for name, value in parts.module.named_buffers()}
    numpy, python = np.random.get_state(), random.getstate()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        np.random.set_state(numpy)
        random.setstate(python)
        with torch.no_grad():
            for name, value in parts.module.named_buffers():
                value.copy_(buffers[name])

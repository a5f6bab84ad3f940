"""What a run will take, before it starts: a few steps are measured, and the virtual clock is run without training.

Measured is processor time: a fifth of a second on the wall says more of the other processes than of the run. So
`seconds` are those of a machine that has a core for each worker.

Nothing of the run is touched: the measured loops are copies that begin with the same model, every random stream is
named, and what torch, numpy and Python have drawn so far is put back.
"""

from __future__ import annotations

import copy
import math
import operator
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from algorithms.base import State
from algorithms.views import Trace
from bench.errors import Diverged, UserError
from bench.learning.evaluate import CHUNK
from bench.output.progress import roughly
from bench.prepare.assemble import Parts
from bench.prepare.budget import size_text
from bench.prepare.resources import peak_memory
from bench.simulation.dispatch import Dispatch
from bench.simulation.learned import Learned, Uploads
from bench.simulation.loop import FederatedLoop
from bench.simulation.memory import Memory
from bench.simulation.tally import Tally
from bench.simulation.training import Learner, Sent

QUIET = 60.0  # seconds; a shorter run begins without a word
YEAR = 365 * 86400.0
LONGEST = 10 * YEAR  # of what is begun
BUDGET = 0.2  # seconds for each thing that is measured; one step at least
LONG_ROUND = 3.0  # seconds after which a round of the virtual clock is not followed to its end
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
    training_seconds: float  # of all devices in all rounds, spread over the workers
    jobs: float  # devices that are trained, as often as they are


class _Enough(Exception):
    """A single round is longer than what is spent on a forecast."""


class NoTraining:
    """The run as the clock sees it: who works when and what is sent, which no training decides."""

    last_trace: Trace | None = None

    def __init__(self, w0: Tensor, clients: int, until: float = math.inf) -> None:
        self.jobs_per_call, self.cache, self.until = sys.maxsize, Memory({"w": w0}, clients), until

    def learn(self, rows: Dispatch, sent: Sent, memory: Memory) -> Learned:
        if time.perf_counter() > self.until:
            raise _Enough
        nothing, number = torch.zeros(len(rows), 1), torch.zeros(len(rows))
        work = torch.tensor(list(map(operator.mul, rows.epochs, rows.steps_per_epoch)))
        return Learned(
            nothing, {}, number, number, number, number, memory={}, gradient=nothing, end=nothing, evaluations=work
        )

    def merge(self, server: State, version: int, rows: Dispatch, learned: Uploads, sent: Sent) -> State:
        return server


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


class Probe:
    """Trains a few devices of a copy of the run for a few steps."""

    def __init__(self, loop: FederatedLoop) -> None:
        self.loop, self.clock = _copy(loop), _clock(loop)

    def largest(self, devices: int) -> Dispatch:
        """The devices with most samples among those that begin."""
        rows, samples = self.loop.draft(self.loop.first()), self.loop.samples
        order = sorted(range(len(rows)), key=lambda k: -samples[rows.client[k]])
        return rows.take(sorted(order[:devices]))

    def seconds(self, rows: Dispatch, steps: int, epochs: int) -> tuple[float, Learned]:
        """Of training these devices on `steps` mini-batches of each."""
        engine = self.loop.engine
        whole, engine.batches = engine.batches, engine.batches.shortened(rows.client, steps)
        rows.epochs = [epochs] * len(rows)
        rows.steps_per_epoch = list(map(engine.batches.steps_per_epoch, rows.client))
        begin = self.clock()
        learned = self.loop.learn(rows)
        elapsed, engine.batches = self.clock() - begin, whole
        return elapsed, learned

    def aggregation(self, rows: Dispatch, learned: Learned) -> float:
        """Seconds of aggregating these rows; they become the next version."""
        begin = self.clock()
        with suppress(Diverged):  # which the run itself will say, unless it drops the device
            self.loop.merge(rows, learned, Tally())
        elapsed = self.clock() - begin
        self.loop.next_version()
        return elapsed


def measure(parts: Parts) -> Forecast:
    """`parts` as they were built, before their first round."""
    config = parts.config
    with _untouched(parts):
        amounts = _amounts(parts.loop, config["virtual_seconds"])
        step, job, aggregation = _seconds(parts.loop, amounts.steps)
        evaluation, figures = _evaluation(parts), parts.evaluate
        (models, tuning), (all_models, all_tuning) = figures.effort(False), figures.effort(True)
    evaluations = max(0.0, amounts.rounds / config["eval_every"] - 1)
    per_epoch = amounts.steps / max(amounts.jobs, 1) / config["epochs"]
    training = (amounts.steps * step + amounts.jobs * job) / parts.workers.count
    testing = (models * evaluations + all_models) * evaluation
    testing += per_epoch * (tuning * evaluations + all_tuning) * step
    seconds = training + testing / parts.workers.count + amounts.aggregations * aggregation + amounts.clock_seconds
    if seconds > LONGEST:
        raise UserError(
            f"This run would take about {seconds / YEAR:,.0f} years here: fewer rounds, uploads in a round "
            f"(arrivals_per_round), epochs or virtual_seconds help."
        )
    traffic, each = (amounts.up, amounts.down, amounts.peer), (step, job, aggregation, evaluation)
    return Forecast(seconds, _memory(parts), *traffic, *each, training, amounts.jobs)


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
    begin, jobs = time.perf_counter(), 0
    dry = _copy(loop, NoTraining(loop.server["w"], loop.fed.clients, begin + LONG_ROUND))
    with suppress(_Enough):
        while not dry.finished and (dry.round == 0 or time.perf_counter() - begin < BUDGET):
            dry.advance()
            jobs += len(dry.ended)
    done = dry.round / dry.rules.rounds
    if not dry.round:
        jobs = max(1, dry.arrivals)
        done = jobs / (dry.rules.rounds * dry.arrivals_per_round)
    if virtual_seconds is not None:
        done = max(done, dry.clock.now / virtual_seconds)
    done = 1.0 if dry.finished else done
    counts = (dry.round, jobs, dry.evaluations, dry.version, time.perf_counter() - begin)
    return Amounts(*(n / done for n in (*counts, dry.traffic.up, dry.traffic.down, dry.traffic.peer)))


def _seconds(loop: FederatedLoop, total: float) -> tuple[float, float, float]:
    """Of a local step, of a job beside its steps, and of an aggregation; one step is enough to see that a run of
    `total` steps is short."""
    probe = Probe(loop)
    buffer = loop.rules.schedule.buffer
    stack = min(loop.training.jobs_per_call, loop.rules.schedule.concurrency)
    one = probe.largest(1)
    _, learned = probe.seconds(one, 1, 1)  # warm-up
    aggregation = probe.aggregation(one, learned)  # some methods do more once they know something
    alone, _ = probe.seconds(probe.largest(1), 1, 1)
    if alone * total < QUIET / 4:
        return alone, 0.0, aggregation

    together = max(1, min(stack, int(BUDGET / alone)))
    rows = probe.largest(together)
    most = max(map(loop.engine.batches.passes, rows.client))
    steps = max(1, min(most, int(BUDGET / (alone * together))))
    a, learned = probe.seconds(rows, steps, 1)
    short, aggregated = float(learned.steps.sum()), range(min(buffer, len(rows)))
    aggregation = probe.aggregation(rows.take(aggregated), learned.take(aggregated)) * buffer / len(aggregated)
    if loop.fed.epochs == 1:
        return a / short, 0.0, aggregation
    b, learned = probe.seconds(probe.largest(together), steps, 2)
    long = float(learned.steps.sum())
    step = min(max((b - a) / (long - short), 0.3 * b / long), b / long)
    job = max(0.0, b - step * long) / together
    if loop.algo.requires & WHOLE_PASSES:
        job *= most / steps
    return step, job, aggregation


def _evaluation(parts: Parts) -> float:
    """Seconds of testing one model."""
    evaluate, w, clock = parts.evaluate.evaluate, parts.loop.server["w"], _clock(parts.loop)
    evaluate.sums(w, [0])  # warm-up
    begin = clock()
    evaluate.sums(w, [0])
    return (clock() - begin) * max(1.0, len(evaluate.y) / CHUNK)


def _clock(loop: FederatedLoop) -> Callable[[], float]:
    """A GPU's work takes no time of the processor."""
    return time.perf_counter if loop.server["w"].is_cuda else time.process_time


def _memory(parts: Parts) -> float:
    """What the process took at most while it loaded and measured, and what only a whole round fills."""
    if parts.loop.server["w"].is_cuda:
        return sum(parts.memory.values())
    there = {"the model", "the data", "the program"}
    return peak_memory() + sum(size for name, size in parts.memory.items() if name not in there)


def _copy(loop: FederatedLoop, training: Learner | None = None) -> FederatedLoop:
    engine = copy.copy(loop.engine.alone)
    return FederatedLoop(loop.algo, loop.fed, engine, loop.devices, loop.rules, loop.server["w"], training)


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

"""One benchmark run: assemble, train under the Trainer, write the record."""

from __future__ import annotations

import copy
import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from bench.errors import Diverged, UserError
from bench.learning.flat import Layout, bind
from bench.learning.task_net import TaskNet
from bench.metrics import MB
from bench.output import facts, tracking
from bench.output.course import Course
from bench.output.outcome import outcome
from bench.output.paces import moment_text
from bench.output.progress import Progress, duration, roughly
from bench.output.result import RunResult
from bench.output.timeline import Log
from bench.output.tracking import Tracker
from bench.prepare import forecast
from bench.prepare.allocator import rare_collections
from bench.prepare.assemble import Parts, build
from bench.prepare.resources import Neighbours, peak_memory
from bench.record import Record
from bench.simulation.loop import FederatedLoop
from bench.simulation.traffic import Traffic

if TYPE_CHECKING:  # Lightning takes a second, and assembling may still refuse the config
    from bench.federation import Federation, Values

MODEL = "model.pt"  # in the folder of a run: a plain state dict
OnRound = Callable[[int, float | None], None]


def run(
    config: dict[str, Any],
    *,
    resume: Path | None = None,
    smaller: Callable[[], Mapping[str, Any] | None] = lambda: None,
    on_record: Callable[[Path], None] = lambda folder: None,
    on_round: OnRound = lambda number, merit: None,
    on_model: Callable[[torch.nn.Module], None] = lambda module: None,
) -> RunResult:
    """Runs a resolved config to its end and returns what result.json holds.

    `resume` is the folder of an unfinished run and `config` then the one recorded there: it goes on in place, from
    its checkpoint or, if none was written, from the start. An interrupted run raises KeyboardInterrupt, also one
    that was complete when it was told to stop. `smaller` gives the config of the same command at scale=cpu, where
    that is another: a long run says how long this would take. `on_record` is told the folder before training starts,
    `on_round` every round with the merit of its metric (None: not evaluated); what it raises ends the run. `on_model`
    is given the model that it ended with.
    """
    gc.collect()  # an earlier run of this process: its data hangs in cycles that Python would leave for long
    tracking.check(config["logger"])
    record = Record.reopen(resume) if resume else None
    tracker, result, parts = Tracker(None), None, None

    def folder(chosen: Mapping[str, Any]) -> Path:
        nonlocal record
        record = record or Record.create(chosen)
        return record.folder

    try:
        parts = build(config, folder, resume)
        record = record or Record.create(parts.config)
        on_record(record.folder)
        print(_assembled(parts), flush=True)
        try:
            expected = _forecast(parts, record, smaller)
        except UserError:  # it would take too long: nothing was begun
            if resume is None:
                record.discard()
            raise
        tracker = tracking.start(parts.config, record.folder)
        result, asked_to_stop = _to_the_end(parts, record, tracker, expected, on_round)
        parts.prerun.discard()
        module = _ended_with(parts)
        if config["keep_model"] is not False:
            torch.save(module.state_dict(), record.folder / MODEL)
        on_model(module)
    except KeyboardInterrupt:
        if record is not None:
            rounds, kept = len(record.rows), record.checkpointed
            but = "" if kept == rounds else f", of which {kept} are kept" if kept else ", without a checkpoint"
            print(f"Stopped after round {rounds}{but}. To go on: {record.resume}", flush=True)
        raise
    finally:
        if parts is not None:
            parts.workers.close()
        tracker.finish(result)
        if record is not None:
            record.close()
    print(_last_lines(result, record), flush=True)
    if asked_to_stop:  # in the last round: this run is complete, those that would follow must not start
        raise KeyboardInterrupt
    return result


def _ended_with(parts: Parts) -> torch.nn.Module:
    """What the server deploys, in a network of its own."""
    module = copy.deepcopy(parts.module)
    bind(module, Layout(module).views(parts.loop.server["w"].clone()))
    return (module.net if isinstance(module, TaskNet) else module).eval()


def _assembled(parts: Parts) -> str:
    """What the first lines (bench/prepare/resolve.py) could not say yet."""
    loop, plan = parts.loop, parts.loop.rules.schedule
    who = f"{plan.concurrency} of {loop.fed.clients} clients"
    every = "every upload" if plan.buffer == 1 else f"every {plan.buffer} uploads"
    filled = "places filled at once, " if plan.at_once else ""
    each = f"a round is {loop.arrivals_per_round} uploads"
    schedule = f"asynchronous, {who} at work, {filled}aggregation after {every}; {each}"
    if loop.sync:
        schedule = f"synchronous, {who} a round"
    return (
        f"{_sent(parts.loop)}"
        f"schedule   {schedule}\n"
        f"size       {parts.model['parameters']:,} parameters\n"
        f"target     {_target(parts)}\n"
        f"engine     {loop.engine.name} ({parts.config['engine_why']})"
    )


def _sent(loop: FederatedLoop) -> str:
    """What transforms make of the size of an upload."""
    if not loop.rules.upload:
        return ""
    shared = ~loop.engine.layout.part(loop.algo.personal)
    rows = ((), loop.rules.upload)
    plain, size = (Traffic(loop.algo, loop.fed, shared, row).upload(loop.version)[1] for row in rows)
    return f"sent       {size:,} bytes an upload instead of {plain:,}\n"


def _target(parts: Parts) -> str:
    """With what it is to be seen beside."""
    evaluate = parts.evaluate.evaluate
    metric, blind = evaluate.task.metric, evaluate.task.blind(evaluate.y)
    target = metric.named(parts.config["target"])
    if blind is None:
        return target
    return f"{target}; always answering {blind[0]}: {metric.roughly(float(evaluate.value(blind[1])))}"


def _to_the_end(
    parts: Parts, record: Record, tracker: Tracker, expected: dict[str, float], on_round: OnRound
) -> tuple[RunResult, bool]:
    """Trains and keeps the result, that of a run which diverged, too; also whether it was told to stop meanwhile."""
    neighbours = Neighbours() if not record.rows else None  # of the part before a resume nothing is known
    try:
        with rare_collections():
            asked_to_stop = _fit(parts, record, tracker, expected, on_round)
    except Diverged as error:
        so_far = _result(parts, record, expected, neighbours)
        record.finish(replace(so_far, final=None, diverged=error.facts))
        raise
    result = _result(parts, record, expected, neighbours)
    record.finish(result)
    return result, asked_to_stop


def _forecast(parts: Parts, record: Record, smaller: Callable[[], Mapping[str, Any] | None]) -> dict[str, float]:
    """Says what a long run will take, and keeps it; a resumed run goes by what was found when it began."""
    if (found := record.forecast()) is not None:
        left = found["seconds"] * (1 - len(record.rows) / parts.config["rounds"])
        if left > forecast.QUIET:
            print(f"forecast   about {roughly(left)} for the rest of it", flush=True)
        return found
    expected = forecast.measure(parts)
    if expected.seconds > forecast.QUIET:
        other = smaller()
        shorter = None if other is None else _shorter(other)
        if shorter is not None and shorter >= expected.seconds:
            shorter = None
        print(f"forecast   {forecast.sentence(expected, parts.loop.algo.mail is not None, shorter)}", flush=True)
    record.keep_forecast(asdict(expected))
    return asdict(expected)


def _shorter(smaller: Mapping[str, Any]) -> float:
    parts = build(smaller)
    try:
        return forecast.measure(parts).seconds
    finally:
        parts.workers.close()


def _fit(parts: Parts, record: Record, tracker: Tracker, expected: Mapping[str, float], on_round: OnRound) -> bool:
    """Trains to the end; returns whether a signal asked to stop while the last round was at work."""
    from bench.checkpoint import checkpoint_path
    from bench.federation import Federation, quiet, trainer

    config, loop, progress = parts.config, parts.loop, Progress()
    course, metric = Course(loop, config, expected), parts.evaluate.metric

    def begin() -> None:
        progress.begin(course.begin(), lambda: (course.label, course.fraction), expected["seconds"])

    def after(row: Values) -> None:
        tracker.log(row)
        course.reported()
        value = row[metric.column]
        measured = "" if value is None else f"{metric.label} {metric.roughly(value)}"
        progress.update(f"round {loop.round}/{course.rounds}", course.fraction, measured)
        on_round(loop.round, None if value is None else metric.merit(value))

    federation = Federation(
        loop,
        parts.evaluate,
        record,
        eval_every=config["eval_every"],
        checkpoint_seconds=config["checkpoint_seconds"],
        on_begin=begin,
        on_round=after,
    )
    checkpoint = checkpoint_path(record.folder)
    resumable = checkpoint.exists()
    if not resumable:
        record.truncate(0)
        Log(record.folder).truncate(0)
    try:
        with quiet(), _stop_signals(federation):
            trainer(record.folder).fit(federation, ckpt_path=checkpoint if resumable else None)
    except SystemExit:  # how Lightning ends after a signal
        if not federation.interrupted:
            raise
    finally:
        progress.end()
    if not federation.finished:
        raise KeyboardInterrupt
    return federation.interrupted


@contextmanager
def _stop_signals(federation: Federation) -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) has a checkpoint written before the run ends; the second does not."""

    def stop(signum: int, frame: FrameType | None) -> None:
        if federation.interrupted:
            raise KeyboardInterrupt
        federation.stop()
        os.write(2, b"\nStopping; Ctrl-C again stops without a checkpoint.\n")  # print may be what was interrupted

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _result(parts: Parts, record: Record, expected: dict[str, float], neighbours: Neighbours | None) -> RunResult:
    config, around = parts.config, facts.surroundings()
    if neighbours is not None and (share := neighbours.share()) is not None:
        around["machine"]["others"] = round(share, 4)
    return RunResult(
        id=record.folder.name,
        **outcome(config, record.rows, parts.evaluate.metric),
        prerun=parts.prerun.cost,
        peak_memory_bytes=peak_memory(),
        data=parts.data,
        model=parts.model,
        engine=parts.loop.engine.name,
        engine_why=config["engine_why"],
        workers=parts.workers.count,
        dropped=parts.loop.dropped,
        weights_sha256=facts.digest(parts.loop.server["w"]),
        forecast=expected,
        **around,
    )


def _last_lines(result: RunResult, record: Record) -> str:
    """Costs beside rounds: a round of one schedule is not one of another."""
    when = "never"
    if (reached := result.rounds_to_target) is not None:
        row = record.rows[reached - 1]
        spent = ", ".join(moment_text(axis, row[axis]) for axis in ("virtual_seconds", "bytes_up"))
        when = f"after {reached} rounds ({spent})"
    per_round = result.number("seconds_per_round") or 0.0
    up, down, peer = ((result.number(f"{way}_bytes") or 0) / MB for way in ("upload", "download", "peer"))
    metric = result.metric
    final, best = (metric.text(result.number(which) or 0.0) for which in ("final", "best"))
    whole = moment_text("virtual_seconds", result.number("virtual_seconds") or 0.0)
    return (
        f"{metric.label} {final} (best {best}), target {metric.goal(result.target)} {when}\n"
        f"{result.rounds} rounds: {whole}, {up:.1f} MB up, {down:.1f} MB down"
        f"{f', {peer:.1f} MB between devices' if peer else ''}; "
        f"{duration(per_round * result.rounds)} of training, {1000 * per_round:.0f} ms a round\n{record.folder}"
        + ("" if result.group else f"\nTo see who trained when: python -m bench timeline {record.folder}")
    )

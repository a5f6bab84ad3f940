"""What a forecast measures, on a clock that only the measured things move, and how it goes from a part to the whole."""

import random
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bench.engine.eager import Eager
from bench.prepare import compose, forecast
from bench.prepare.assemble import build

STEP, JOB, AGGREGATION, TEST = 3.0, 7.0, 11.0, 5.0


def config(*keys):
    small = ["dataset=digits", "clients=6", "cohort=3", "rounds=4", "engine=eager", "logger=none"]
    return compose.config([*small, *keys])


@pytest.fixture
def timed(monkeypatch):
    """A run whose steps, jobs, aggregations and tests take so many seconds each, and everything else no time."""

    def make(*keys):
        now, made = [0.0], config(*keys)
        parts = build(made)
        engine, tester, algo = parts.loop.engine, parts.evaluate.evaluate, type(parts.loop.algo)

        def takes(seconds, function):
            def slow(*arguments):
                now[0] += seconds
                return function(*arguments)

            return slow

        train = Eager.train

        def slow_jobs(self, algo, fed, jobs, *rest):
            now[0] += JOB * len(jobs.client)
            return train(self, algo, fed, jobs, *rest)

        for clock in ("perf_counter", "process_time"):
            monkeypatch.setattr(forecast.time, clock, lambda: now[0])
        monkeypatch.setattr(engine, "training_step", takes(STEP, engine.training_step))
        monkeypatch.setattr(Eager, "train", slow_jobs)
        monkeypatch.setattr(algo, "aggregate", takes(AGGREGATION, algo.aggregate))
        monkeypatch.setattr(tester, "sums", takes(TEST, tester.sums))
        return parts

    return make


def test_a_long_run_is_measured_in_steps_jobs_and_aggregations(timed, monkeypatch):
    parts = timed("algo=fedavg", "epochs=2")
    one = forecast._seconds(parts.loop, total=1e6)
    assert one == pytest.approx((STEP, JOB, 3 * AGGREGATION))  # of one update, where three are aggregated
    monkeypatch.setattr(forecast, "BUDGET", 1000.0)
    assert forecast._seconds(parts.loop, total=1e6) == pytest.approx((STEP, JOB, AGGREGATION))


def test_one_epoch_and_a_short_run_are_measured_in_whole_jobs(timed, monkeypatch):
    parts = timed("algo=fedavg", "epochs=1")
    assert forecast._seconds(parts.loop, total=1e6) == pytest.approx((STEP + JOB, 0.0, 3 * AGGREGATION))
    assert forecast._seconds(parts.loop, total=1.0) == pytest.approx((STEP + JOB, 0.0, AGGREGATION))
    monkeypatch.setattr(forecast, "BUDGET", 1000.0)
    assert STEP < forecast._seconds(parts.loop, total=1e6)[0] < STEP + JOB / 2  # a job is many steps now


def test_what_a_method_does_with_all_samples_of_a_device_is_measured_on_few_and_scaled_up(timed, monkeypatch):
    parts = timed("algo=mimelite", "epochs=2")
    _, job, _ = forecast._seconds(parts.loop, total=1e6)
    largest = forecast.Probe(parts.loop).largest(1).client[0]
    monkeypatch.setattr(forecast, "WHOLE_PASSES", set())
    passes = parts.loop.engine.batches.passes(largest)
    assert passes > 1 and job == pytest.approx(passes * forecast._seconds(parts.loop, total=1e6)[1])


def test_a_probe_trains_the_devices_with_most_samples():
    loop = build(config()).loop
    cohort, taken = loop.first(), forecast.Probe(loop).largest(3).client
    sizes = sorted((loop.samples[client] for client in cohort), reverse=True)
    assert sorted((loop.samples[client] for client in taken), reverse=True) == sizes[:3] and sizes[0] > sizes[-1]


def test_a_probe_takes_the_steps_it_is_asked_for_also_after_fewer():
    probe = forecast.Probe(build(config()).loop)
    assert [int(probe.seconds(probe.largest(1), steps, 1)[1].steps) for steps in (1, 5, 2)] == [1, 5, 2]


def test_the_test_set_takes_as_many_times_its_first_chunk_as_it_is_long(timed, monkeypatch):
    parts = timed()
    assert forecast._evaluation(parts) == TEST
    monkeypatch.setattr(forecast, "CHUNK", 90)
    assert forecast._evaluation(parts) == TEST * len(parts.evaluate.evaluate.y) / 90


def test_a_run_that_is_too_long_to_walk_through_is_extrapolated_by_rounds(monkeypatch):
    monkeypatch.setattr(forecast, "BUDGET", 0.0)
    made = config("algo=fedavg", "rounds=50")
    whole, one = (build(made).loop for _ in range(2))
    amounts = forecast._amounts(whole, made["virtual_seconds"])
    one.advance()
    assert (amounts.rounds, amounts.jobs, amounts.aggregations) == (50, 150, 50)
    assert (amounts.up, amounts.down) == pytest.approx((50 * one.traffic.up, 50 * one.traffic.down))


def test_a_run_that_ends_by_the_clock_is_extrapolated_by_its_seconds(monkeypatch):
    monkeypatch.setattr(forecast, "BUDGET", 0.0)
    made = config("algo=fedavg", "rounds=1000", "virtual_seconds=100")
    whole, one = (build(made).loop for _ in range(2))
    amounts = forecast._amounts(whole, made["virtual_seconds"])
    one.advance()
    assert 1 / 1000 < one.clock.now / 100 < 1
    assert amounts.rounds == pytest.approx(100 / one.clock.now)


def test_workers_share_all_but_the_aggregation_and_memory_adds_what_a_round_fills(monkeypatch):
    made = config("algo=fedbabu", "rounds=10", "eval_every=5", "epochs=2")
    monkeypatch.setattr(forecast, "_seconds", lambda loop, total: (2.0, 10.0, 100.0))
    monkeypatch.setattr(forecast, "_evaluation", lambda parts: 1000.0)
    monkeypatch.setattr(forecast, "peak_memory", lambda: 1e9)
    parts = replace(build(made), workers=SimpleNamespace(count=2))
    found, loop = forecast.measure(parts), parts.loop
    while not loop.finished:
        loop.advance()
    an_epoch = loop.evaluations / 30 / 2
    tuned = 2 * 6 * 5 * an_epoch  # two evaluations fine-tune six devices for five epochs
    shared = 2.0 * (loop.evaluations + tuned) + 10.0 * 30 + 1000.0 * 2 * (1 + 6)
    assert found.seconds == pytest.approx(shared / 2 + 100.0 * 10, abs=1.0)  # and the moment that the clock takes
    filled = {n: size for n, size in parts.memory.items() if n not in ("the model", "the data", "the program")}
    assert len(filled) < len(parts.memory) and found.memory_bytes == 1e9 + sum(filled.values())


def draw_all():
    return [torch.rand(1).item(), np.random.rand(), random.random()]


def test_what_a_users_module_draws_and_counts_while_it_is_measured_has_not_happened(monkeypatch):
    made = config("algo=fedavg")
    parts = build(made)
    engine, module = parts.loop.engine, parts.module
    module.register_buffer("steps", torch.zeros(1))
    step, counted = engine.training_step, []

    def counting(batch, index):
        draw_all()
        module.steps += 1
        counted.append(float(module.steps))
        return step(batch, index)

    monkeypatch.setattr(engine, "training_step", counting)
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()
    expected = draw_all()
    for put, state in zip((torch.set_rng_state, np.random.set_state, random.setstate), states, strict=True):
        put(state)
    forecast.measure(parts)
    assert draw_all() == expected
    assert max(counted) > 0 and float(module.steps) == 0


def test_time_that_others_take_is_not_the_runs(monkeypatch):
    parts = build(config("algo=fedavg"))
    own = forecast.measure(parts)

    def waiting(function):
        def slow(*arguments):
            time.sleep(0.05)  # as if another process had the core
            return function(*arguments)

        return slow

    monkeypatch.setattr(Eager, "train", waiting(Eager.train))
    monkeypatch.setattr(parts.evaluate.evaluate, "sums", waiting(parts.evaluate.evaluate.sums))
    busy = forecast.measure(parts)
    assert busy.step_seconds < own.step_seconds + 0.03 and busy.evaluation_seconds < own.evaluation_seconds + 0.03

"""How much of a run is done, asked after every local step of real runs."""

from dataclasses import asdict
from itertools import pairwise

import pytest

from bench.output.course import Course
from bench.prepare import compose, forecast
from bench.prepare.assemble import build
from bench.simulation.underway import START

RUNS = {
    "synchronous": ["algo=fedavg"],
    "asynchronous": ["algo=fed2a", "cohort=3"],
    "by the clock": ["algo=fedasync", "rounds=1000", "virtual_seconds=3"],
    "lossy": ["algo=fedasync", "devices.loss=0.3"],
}


def watched(monkeypatch, *words, resumed_after=0):
    """The course of a run and what it says: (round, fraction, label) after every step."""
    keys = ["dataset=digits", "clients=12", "cohort=4", "rounds=6", "epochs=2", "engine=eager", "logger=none"]
    config = compose.config([*keys, "engine.workers=1", *words])
    parts = build(config)
    expected, loop, said = asdict(forecast.measure(parts)), parts.loop, []
    expected["training_seconds"] = 0.9 * expected["seconds"]
    for _ in range(resumed_after):
        loop.advance()
    loop.underway.trained = 0  # as in the process that resumes
    course = Course(loop, config, expected)
    said.append((0, course.begin(), course.label))
    add = loop.engine.steps.add

    def told(steps):
        add(steps)
        said.append((loop.round, course.fraction, course.label))

    monkeypatch.setattr(loop.engine.steps, "add", told)
    while not loop.finished:
        loop.advance()
        said.append((loop.round, course.fraction, course.label))
        course.reported()
        said.append((loop.round, course.fraction, course.label))
    return parts, said


@pytest.mark.parametrize("kind", RUNS)
def test_it_grows_step_by_step_from_nothing_to_all(kind, monkeypatch):
    parts, said = watched(monkeypatch, *RUNS[kind])
    fractions = [fraction for _, fraction, _ in said]
    assert fractions[0] == 0 and fractions[-1] == 1
    assert max(fraction for round, fraction, _ in said if round < parts.loop.round) < 1
    ups = [b - a for a, b in pairwise(fractions)]
    assert min(ups) >= -1e-9 and max(ups) < 0.25


def test_devices_that_are_trained_ahead_of_their_uploads_count_before_the_first_round_is_over(monkeypatch):
    _, said = watched(monkeypatch, *RUNS["asynchronous"])
    first = [(fraction, label) for round, fraction, label in said if round == 0]
    share = START / (6 * 3)  # of twelve at work so many are trained first; three make a round
    assert max(fraction for fraction, _ in first) == pytest.approx(0.9 * share, abs=0.01)
    halfway = min(first, key=lambda pair: abs(pair[0] - 0.45 * share))
    assert halfway[1].startswith(f"round 1/6, {START} devices ") and halfway[1].endswith(" % trained")
    assert 45 < float(halfway[1].split()[-3]) < 55


def test_within_a_synchronous_round_it_goes_from_this_round_to_the_next(monkeypatch):
    _, said = watched(monkeypatch, *RUNS["synchronous"])
    within = [fraction for round, fraction, _ in said if round == 2 and fraction < 1]
    assert within[0] == pytest.approx(2 / 6, abs=0.16) and within[-1] == pytest.approx(0.9 * 3 / 6 + 0.1 * 2 / 6)


def test_a_resumed_run_begins_where_it_was_left(monkeypatch):
    _, said = watched(monkeypatch, *RUNS["synchronous"], resumed_after=3)
    assert said[0][1] == pytest.approx(0.5) and said[0][2] == "round 4/6"
    assert 0.5 < said[1][1] < 0.55 and said[-1][1] == 1


def test_a_forecast_of_an_older_version_leaves_only_rounds(monkeypatch):
    parts, _ = watched(monkeypatch, *RUNS["synchronous"])
    course = Course(parts.loop, {"rounds": 24, "virtual_seconds": None}, {"seconds": 100.0})
    parts.loop.round = 3
    assert course.begin() == 3 / 24
    parts.loop.advance()
    assert course.fraction == 3 / 24
    course.reported()
    assert course.fraction == 4 / 24

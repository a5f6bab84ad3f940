"""Jobs under way: every question against the plain way of answering it, and how much work an answer takes."""

import math
import random

import pytest

from bench.prepare import compose, forecast
from bench.prepare.assemble import build
from bench.simulation import flight
from bench.simulation.dispatch import Dispatch
from bench.simulation.flight import IdleClients, InFlight


def job(number, client, arrival, version=0, count=1):
    (made,) = Dispatch(
        client=[client], number=[0], count=[count], version=[version], epochs=[1], steps_per_epoch=[1], layers=[[]],
        recipients=[[]], bytes_up=[0], bytes_down=[0], dispatched=[0.0], begins=[0.0], unicast=[{}], arrival=[arrival],
    ).jobs()  # fmt: skip
    made.id = number
    return made


def plainly(jobs, most, arrivals, until):
    """As in DESIGN: trainable jobs whose upload can still count before the run ends, earliest first; all of
    them that end by `until` where there is no limit."""
    found, arrivals = [], math.inf if most is None else arrivals
    for one in sorted(jobs, key=lambda job: (job.arrival, job.client)):
        if arrivals <= 0 or one.arrival > until:
            break
        arrivals -= one.count
        if one.trainable and one.learned is None:
            found.append(one)
    return found[:most]


@pytest.mark.parametrize("seed", range(20))
def test_the_next_to_train_are_those_that_a_search_through_all_finds(seed):
    rng = random.Random(seed)
    there, fleet, number = [], InFlight(), 0
    for _ in range(60):
        for client in rng.sample(range(100), 3):
            if client not in fleet.clients:
                new = job(number, client, float(rng.randint(0, 20)), rng.randint(0, 5), rng.randint(1, 2))
                fleet.add(new)
                there.append(new)
                number += 1
        for one in there:
            if not one.trainable and rng.random() < 0.5:
                fleet.make_trainable(one)
        if rng.random() < 0.5:
            ended = rng.choice(there)
            assert fleet.end(ended.id) is ended
            there.remove(ended)
        assert list(fleet.clients) == sorted(one.client for one in there)
        assert fleet.places == sum(one.count for one in there)
        assert dict(fleet) == {one.id: one for one in there}
        if waiting := [one for one in there if one.trainable and one.learned is None]:
            rng.choice(waiting).learned = "something"  # because its own upload was asked for
        limits = rng.choice([None, *range(1, 10)]), rng.randint(0, 2 * len(there) + 1), rng.choice([math.inf, 8.0])
        expected = plainly(there, *limits)
        assert fleet.pop_trainable(*limits) == expected
        for one in expected:
            one.learned = "something"


def test_a_job_that_was_trainable_when_it_was_recorded_is_so_at_once():
    fleet = InFlight()
    for number, trainable in enumerate((True, False)):
        one = job(number, number, 1.0)
        one.trainable = trainable
        fleet.add(one)
    assert [one.id for one in fleet.pop_trainable(None, 0, math.inf)] == [0]


def test_a_version_is_unused_once_its_last_job_has_ended_and_is_named_once():
    fleet = InFlight()
    for number, version in enumerate([0, 0, 1]):
        fleet.add(job(number, number, 1.0, version))
    fleet.end(0)
    assert fleet.unused() == set()
    fleet.end(1)
    again = fleet.end(2)
    fleet.add(again)  # a lost upload: the device goes on with its version
    assert fleet.unused() == {0} and fleet.unused() == set()


def test_the_idle_are_all_but_those_taken():
    for count, taken in ((5, []), (7, [0, 1, 6]), (6, [2, 3]), (3, [0, 1, 2])):
        idle = IdleClients(count, taken)
        assert list(idle) == [n for n in range(count) if n not in taken] and len(idle) == count - len(taken)
    assert IdleClients(9, [1, 2])[1:4] == [3, 4, 5] and all(type(n) is int for n in IdleClients(9, [1]))


def comparisons(clients, monkeypatch, *keys):
    """How many jobs are looked at, per job, when they are ordered, found or asked for what they are."""
    shared = ["dataset=digits", "dataset.source=synthetic", f"dataset.samples={10 * clients}", "partition=iid"]
    made = compose.config([*shared, f"clients={clients}", "cohort=4", "rounds=40", "algo=fedasync", *keys])
    count = 0

    class Counted(tuple):
        def __lt__(self, other):
            nonlocal count
            count += 1
            return tuple.__lt__(self, other)

    def key(one):
        nonlocal count
        count += 1
        return Counted((one.arrival, one.client, one.id))

    monkeypatch.setattr(flight, "_key", key)
    loop = build(made).loop
    dry = forecast._copy(loop, forecast.NoTraining(loop.server["w"], clients))
    dry.advance()
    begin, jobs, count = dry.round, dry.next_job, 0
    while dry.round < begin + 20:
        dry.advance()
        dry.jobs.pop_trainable(4, 10**9, math.inf)
    return count / (dry.next_job - jobs)


@pytest.mark.parametrize("keys", [["buffer=4"], ["concurrency=100", "buffer=1", "arrivals_per_round=4"]], ids=str)
def test_the_work_for_a_job_hardly_grows_with_the_number_of_devices(keys, monkeypatch):
    few, many = (comparisons(clients, monkeypatch, *keys) for clients in (250, 4000))
    assert few > 5 and 5 < many < 2 * few, "a search through all would be 16 times the work"

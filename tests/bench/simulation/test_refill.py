"""Places that are filled as soon as they are free."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.errors import UserError
from bench.prepare import compose
from bench.prepare.assemble import build
from bench.simulation.devices import Devices

SMALL = ["dataset=digits", "protocol=none", "clients=12", "rounds=6", "batch_size=40", "test_samples=64"]


def jobs(*words):
    """(client, version, from, to) of every dispatch; those that have not ended at the end are open."""
    loop, found = build(compose.config([*SMALL, *words])).loop, []
    while not loop.finished:
        loop.advance()
        found += [(client, version, begin, end) for client, version, begin, _, _, end, _ in loop.ended]
    return found + [(job.client, job.version, job.dispatched, float("inf")) for job in loop.jobs.values()]


@pytest.mark.parametrize("network", [[], ["devices.down=2", "devices.up=[1,3]", "devices.redraw=true"]])
@pytest.mark.parametrize(("places", "buffer"), [(4, 3), (4, 6), (5, 5), (12, 20)])
def test_so_many_are_at_work_all_the_time_and_nobody_twice(places, buffer, network):
    found = jobs("algo=fedavg", f"concurrency={places}", f"buffer={buffer}", "refill=at_once", *network)
    ends = sorted(end for *_, end in found if end < float("inf"))
    assert len(ends) == 6 * buffer
    for moment in [0.0, *ends]:
        working = [client for client, _, begin, end in found if begin <= moment < end]
        assert len(working) == len({*working}) == places
    for _, version, begin, _ in found:
        assert version == sum(end <= begin for end in ends) // buffer
    assert len({client for client, *_ in found}) >= min(12, 2 * places)


def test_a_place_that_waits_for_the_aggregation_stands_empty():
    found = jobs("algo=fedavg", "concurrency=4", "buffer=3")
    ends = sorted(end for *_, end in found if end < float("inf"))
    counts = Counter(sum(begin <= moment < end for *_, begin, end in found) for moment in ends)
    assert counts.keys() == {2, 3, 4}


@pytest.mark.parametrize("words", [[], ["sampling=with_replacement"]])
def test_every_place_is_drawn_from_a_stream_of_its_own(monkeypatch, words):
    asked, draw = [], Devices.draw

    def watched(self, version, idle, places, *more):
        asked.append((version, *more))
        return draw(self, version, idle, places, *more)

    monkeypatch.setattr(Devices, "draw", watched)
    jobs("algo=fedavg", "concurrency=4", "buffer=3", "refill=at_once", *words)
    assert len(asked) > 12 and len({*asked}) == len(asked)


def test_who_waits_in_the_buffer_is_drawn_only_where_nobody_else_is_idle():
    found = jobs("algo=fedavg", "concurrency=4", "buffer=7", "refill=at_once")
    ends = sorted(end for *_, end in found if end < float("inf"))
    first = [client for client, _, _, end in found if end in ends[:7]]
    assert len({*first}) == 7


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "algo=fedavg buffer=3 concurrency=2",
            "has to hold, not 3 <= 2 <= 12: a smaller buffer, or refill=at_once, would do",
        ),
        ("algo=fedavg concurrency=13 buffer=14 refill=at_once", "concurrency=13 is more than clients=12"),
        ("algo=fedavg schedule=sync refill=at_once", "refill=at_once is for asynchronous schedules"),
        ("algo=fedavg refill=aggregation", "refill=aggregation makes no difference here"),
        ("algo=fedasync refill=at_once", "refill=at_once makes no difference here: it needs a buffer of more than one"),
        ("algo=fedavg refill=soon", "refill=soon is not possible: it must be aggregation | at_once"),
    ],
)
def test_what_cannot_be_is_refused(words, message):
    with pytest.raises(UserError) as error:
        compose.config([*SMALL, *words.split()])
    assert message in str(error.value)

"""Links, lost messages, retransmission and waiting, worked out by hand on two or three devices."""

from functools import partial

import numpy as np
import pytest

from bench.simulation.clock import RoundTrip
from bench.simulation.devices import Devices, Population
from tests.bench.simulation import small
from tests.bench.simulation.small import W0, B, Post, assert_close, step

run = partial(small.run, clients=2)


@pytest.fixture
def lose(monkeypatch):
    """Makes exactly these messages get lost: (what, client, dispatch, number)."""

    def these(*messages):
        monkeypatch.setattr(
            Devices, "lost", lambda self, client, dispatch, what, n: (what, client, dispatch, n) in messages
        )

    return these


def test_after_a_lost_upload_the_device_goes_on_from_its_own_model(lose):
    """Device 0 (1 s) loses its upload at t = 1, waits one second (no answer was ever seen) and trains on until t = 3:
    then both steps arrive, taken from version 0. Device 1 (1.5 s) arrives at 1.5 and, from version 1, at 3."""
    lose(("upload", 0, 0, 0))
    trace = run("fedavg", concurrency=2, buffer=1, seconds=[1.0, 1.5], rounds=3, devices={"loss": 0.5})
    one = W0 + step(W0, 1) - W0
    two = one + step(W0, 0, 2) - W0  # at t = 3 uploads come in device order
    three = two + step(one, 1) - one
    assert_close(trace.w, [W0, one, two, three])
    assert trace.rows[-1]["bytes_up"] == 4 * 2 * 4  # three that arrived and the lost one
    assert trace.rows[-1]["gradient_evaluations"] == 4


def test_lost_work_counts_in_steps_and_rates(lose):
    """SCAFFOLD divides by the rates since the model was received: two steps, so c_0 is the mean of both gradients."""
    lose(("upload", 0, 0, 0))
    trace = run("scaffold", clients=1, concurrency=1, buffer=1, devices={"loss": 0.5})
    assert_close(trace.clients["c"][0], ((W0 - B[0]) + (step(W0, 0) - B[0])) / 2)


def test_a_method_that_retransmits_sends_again_until_it_arrives(lose):
    class Again(Post):
        mail = None
        unicast = ()
        retransmit = True

        def extra_up(self, fed):
            return 0

        def local(self, jobs, w, epoch, fed):
            from algorithms.base import LocalRule

            return LocalRule()

        def upload(self, jobs, trained, fed):
            from algorithms.base import Upload

            return Upload(trained.end - jobs.received)

        def aggregate(self, server, updates, fed):
            return {**server, "w": server["w"] + updates.weight @ updates.delta}

    lose(("upload", 0, 0, 0), ("upload", 0, 0, 1))
    rows = run(Again(), clients=1, concurrency=1, buffer=1, devices={"loss": 0.5}).rows
    assert rows[-1]["virtual_seconds"] == 1 + 2 * 1.0  # the second of work, two timeouts of a second
    assert rows[-1]["bytes_up"] == 3 * 4 * 2
    assert rows[-1]["gradient_evaluations"] == 1


def test_a_server_that_has_waited_long_enough_aggregates_what_it_has():
    """Device 0 arrives at t = 1; a buffer of two would be full at t = 5, but the server stops waiting at 3.5. Device 0
    then starts anew and arrives at 4.5, where the row ends."""
    trace = run("fedavg", clients=3, concurrency=3, buffer=2, seconds=[1.0, 5.0, 9.0], devices={"max_wait": 2.5})
    assert trace.rows[-1]["virtual_seconds"] == 4.5
    assert_close(trace.w, [W0, step(W0, 0)])
    patient = run("fedavg", clients=3, concurrency=3, buffer=2, seconds=[1.0, 5.0, 9.0], weighting="uniform")
    assert patient.rows[-1]["virtual_seconds"] == 5
    assert not np.allclose(patient.w[1], trace.w[1])


def test_mail_takes_its_time_between_two_devices(monkeypatch):
    """Seconds 1 and 2. Instant mail: the starts at t = 2 read what the other posted at that instant. Mail that takes
    1.5 s: posted at t = 2 it lies there at 3.5, after the starts at t = 2 and 3."""
    instant = run(Post(), seconds=[1.0, 2.0], rounds=6)
    assert instant.server["read"].tolist() == [[0, 0], [0, 0], [1, 0], [0, 1], [0, 0], [1, 1]]
    monkeypatch.setattr(Devices, "peer_seconds", lambda *_: 1.5)
    slow = run(Post(), seconds=[1.0, 2.0], rounds=8)
    assert slow.server["read"].tolist() == [[0, 0], [0, 0], [1, 0], [0, 0], [0, 0], [1, 0], [0, 1], [0, 0]]


def test_links_between_devices_are_the_uplink_times_a_factor_of_the_pair():
    devices = Devices(30, 0, population=Population(up=2.0, peer=[0.1, 10.0]))
    pairs = [(i, j) for i in range(30) for j in range(30) if i != j]
    seconds = [devices.peer_seconds(i, j, 2_000_000) for i, j in pairs]
    assert min(seconds) > 0.1
    assert max(seconds) < 10
    assert 0.3 < float(np.exp(np.mean(np.log(seconds)))) < 3
    assert devices.peer_seconds(3, 4, 7) == devices.peer_seconds(4, 3, 7)
    assert Devices(30, 0, population=Population(up=2.0)).peer_seconds(0, 1, 10**9) == 0


def test_transfers_take_size_over_bandwidth():
    rows = run("fedavg", seconds=[1.0, 1.0], devices={"up": 8e-6, "down": 4e-6}).rows
    assert rows[-1]["virtual_seconds"] == pytest.approx(2 + 1 + 1)  # 8 bytes at 4 a second, work, 8 bytes at 8


def test_timeouts_follow_rfc_6298():
    trip = RoundTrip()
    assert trip.timeout == 1.0
    trip.observe(2.0)
    assert trip.timeout == 2.0 + 4 * 1.0
    trip.observe(4.0)  # variation 3/4 + 1/4 * |2 - 4|, smoothed 7/8 * 2 + 1/8 * 4
    assert trip.timeout == 2.25 + 4 * 1.25


def test_losses_happen_as_often_as_they_should_and_are_the_same_for_everyone():
    devices = Devices(50, 3, population=Population(loss=0.2))
    draws = [devices.lost(c, d, "upload", 0) for c in range(50) for d in range(40)]
    assert 0.17 < np.mean(draws) < 0.23
    assert draws == [devices.lost(c, d, "upload", 0) for c in range(50) for d in range(40)]
    assert not any(Devices(50, 3).lost(c, 0, "upload", 0) for c in range(50))


def test_device_kinds_and_distances_are_drawn_once_per_device():
    devices = Devices(400, 0, population=Population(kinds=[1.0, 3.0], seconds_per_step=1.0, up=[10, 1]))
    assert set(devices.compute_seconds(range(400), [7] * 400, [2] * 400)) == {2.0, 6.0}
    seconds = [devices.upload_seconds(c, 10_000_000) for c in range(400)]
    assert set(seconds) == {1.0, 10.0}
    assert 150 < seconds.count(1.0) < 250
    timed = Devices(9, 0, population=Population(seconds=[3.0, 30.0], redraw=True))
    assert all(3 <= s <= 30 for d in range(9) for s in timed.compute_seconds(range(9), [d] * 9, [99] * 9))

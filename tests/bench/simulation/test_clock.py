import math

import pytest

from bench.simulation.clock import Clock, Event, Kind
from bench.simulation.devices import Devices, Population


def test_simultaneous_events_come_as_mail_uploads_by_device_then_starts():
    clock = Clock()
    for event in (
        Event(1.0, Kind.START, 0, 4),
        Event(1.0, Kind.UPLOAD, 2, 1),
        Event(1.0, Kind.UPLOAD, 1, 3),
        Event(1.0, Kind.MAIL, 5, 2),
        Event(0.5, Kind.START, 9, 0),
    ):
        clock.push(event)
    assert [clock.pop().job for _ in range(5)] == [0, 2, 3, 1, 4]
    assert clock.now == 1.0
    assert clock.next_time() == math.inf


def test_the_clock_survives_a_round_trip():
    clock = Clock()
    clock.push(Event(2.0, Kind.MAIL, 1, 0))
    clock.push(Event(1.0, Kind.UPLOAD, 0, 1))
    clock.pop()
    other = Clock()
    other.load_state_dict(clock.state_dict())
    assert other.now == 1.0
    assert other.pop() == Event(2.0, Kind.MAIL, 1, 0)


def test_a_cohort_has_no_device_twice_unless_drawn_with_replacement():
    idle = list(range(3, 13))
    for version in range(20):
        drawn = Devices(20, 0).draw(version, idle, 6)
        assert len(set(drawn)) == 6
        assert set(drawn) <= set(idle)
    twice = [len(set(Devices(20, 0, "with_replacement").draw(v, idle, 6))) < 6 for v in range(20)]
    assert any(twice)


def test_a_share_rho_of_a_synchronous_cohort_is_late():
    devices = Devices(20, 1, population=Population(rho=0.5))
    for version in range(30):
        granted = devices.grant(version, range(10), [0] * 10, 5, sync=True)
        assert sum(e < 5 for e in granted) <= 5  # tau = 1 still finishes
        assert set(granted) <= {2, 3, 4, 5}  # tau_max = E - 1: E_i = E + 1 - tau
    seen = {e for v in range(30) for e in devices.grant(v, range(10), [0] * 10, 5, sync=True)}
    assert seen == {2, 3, 4, 5}


@pytest.mark.parametrize(
    ("epochs", "tau_max", "possible"), [(5, 1, {5}), (5, 2, {4, 5}), (1, None, {1}), (3, 9, {1, 2, 3})]
)
def test_the_delay_is_bounded(epochs, tau_max, possible):
    devices = Devices(20, 1, population=Population(rho=1.0, tau_max=tau_max))
    seen = {e for v in range(40) for e in devices.grant(v, range(10), [0] * 10, epochs, sync=True)}
    assert seen == possible


def test_stragglers_that_draw_their_epochs_never_finish():
    devices = Devices(20, 1, population=Population(rho=1.0, straggler="epochs"))
    assert {e for v in range(40) for e in devices.grant(v, range(10), [0] * 10, 4, sync=True)} == {1, 2, 3}


def test_asynchronous_dispatches_are_late_with_probability_rho_each_on_its_own_stream():
    devices = Devices(20, 1, population=Population(rho=0.3, straggler="epochs"))
    late = sum(devices.grant(0, [c], [d], 4, sync=False)[0] < 4 for c in range(20) for d in range(50))
    assert 0.25 < late / 1000 < 0.35
    alone = devices.grant(7, [3], [2], 4, sync=False)
    assert devices.grant(0, [1, 3], [0, 2], 4, sync=False)[1:] == alone


def test_speeds_lie_within_the_spread_and_stay_unless_redrawn():
    devices = Devices(200, 0, population=Population(seconds_per_step=0.5, spread=8.0))
    times = devices.compute_seconds(range(200), [0] * 200, [3] * 200)
    assert 1.5 <= min(times) < 2.0
    assert 10 < max(times) <= 12.0
    assert times == devices.compute_seconds(range(200), [5] * 200, [3] * 200)
    again = Devices(200, 0, population=Population(seconds_per_step=0.5, spread=8.0, redraw=True))
    assert len(set(again.compute_seconds([0, 0], [0, 1], [3, 3]))) == 2


def test_links_take_size_over_bandwidth_and_none_is_instant():
    devices = Devices(2, 0, population=Population(up=2.0, down=4.0))
    assert devices.upload_seconds(0, 1_000_000) == 0.5
    assert devices.download_seconds(1, 1_000_000) == 0.25
    assert Devices(2, 0).upload_seconds(0, 10**9) == 0


def test_starts_that_are_only_counted_are_those_before_a_time_and_survive_a_round_trip():
    clock = Clock(counts_starts=True)
    times = [3.0, 1.0, 2.0, 2.0, 2.5]
    for device, time in enumerate(times):
        clock.push(Event(time, Kind.START, device, device))
    clock.push(Event(1.5, Kind.UPLOAD, 7, 9))
    assert clock.started(2.0) == 1 and clock.next_time() == 1.5
    other = Clock(counts_starts=True)
    other.load_state_dict(clock.state_dict())
    for one in (clock, other):
        assert one.pop() == Event(1.5, Kind.UPLOAD, 7, 9) and one.next_time() == math.inf
        assert [one.started(2.0, inclusive=True), one.started(9.0), one.started(9.0)] == [2, 2, 0]

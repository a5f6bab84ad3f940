"""Who is drawn among very many devices, without looking at all of them."""

import time
from collections import Counter

import numpy as np
import pytest

from bench.seeding import stream
from bench.simulation import devices
from bench.simulation.devices import Devices
from bench.simulation.flight import IdleClients


def test_few_devices_are_drawn_as_ever():
    """Committed results rest on it."""
    drawn = Devices(100, 3).draw(7, range(100), 10)
    assert drawn == stream(3, "sampling", 7).permutation(100)[:10].tolist()
    assert Devices(devices.MANY - 1, 3).draw(7, range(50), 50) == list(range(50))


@pytest.mark.parametrize("places", [1, 1000, 120_000])
def test_many_devices_are_drawn_once_each_and_the_same_ones_again(places):
    taken = list(range(0, 200_000, 3))
    many, idle = Devices(200_000, 0), IdleClients(200_000, taken)
    assert len(idle) > devices.MANY
    drawn = many.draw(5, idle, places)
    assert len(set(drawn)) == places and not set(drawn) & set(taken)
    assert many.draw(5, idle, places) == drawn != many.draw(6, idle, places)


def test_every_order_of_every_choice_is_as_likely():
    rng = np.random.default_rng(0)
    found = Counter(tuple(devices._distinct(rng, 4, 2)) for _ in range(24_000))
    expected = 24_000 / 12
    assert len(found) == 12  # ordered pairs
    assert sum((count - expected) ** 2 / expected for count in found.values()) < 31.3  # chi-squared, 11: p = 0.001


def test_a_place_costs_the_same_among_a_million():
    many = Devices(1_000_000, 0)
    begin = time.process_time()
    for version in range(50):
        many.draw(version, range(1_000_000), 1)
    assert time.process_time() - begin < 0.2, "a permutation of all takes ten milliseconds"


def test_constants_of_devices_are_the_first_numbers_of_their_streams(monkeypatch):
    monkeypatch.setattr(devices, "MANY", 7)
    own = Devices(20, 5)
    assert list(own._speeds) == [stream(5, "devices", client, 0).random() for client in range(20)]
    assert list(own._links) == [stream(5, "links", client).random() for client in range(20)]

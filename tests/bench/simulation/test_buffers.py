"""The uploads of an asynchronous buffer, taken together, are what their events, one by one, would have made of them."""

import math

import pytest
import torch

from bench.errors import Diverged
from bench.prepare import compose
from bench.prepare.assemble import build
from bench.prepare.registry import classes
from bench.simulation.clock import Clock
from tests.algorithms.loops import state
from tests.bench.simulation.test_rounds import history, spoil

SMALL = ("dataset=digits", "clients=8", "cohort=4", "rounds=9", "epochs=2", "batch_size=40", "test_samples=64")
ASYNC = ("schedule=async", "concurrency=6")
SLOW = ("devices.rho=0.5", "devices.redraw=true", "devices.down=[0.02,2]")  # some begin after others have arrived
LINKS = (*SLOW, "devices.up=[0.05,3]")
SETTINGS = {
    "every upload": ("buffer=1", "arrivals_per_round=3", *LINKS),
    "a round ends within a buffer": ("buffer=4", "arrivals_per_round=3", *LINKS),
    "a device drawn twice": ("buffer=3", "sampling=with_replacement", "weighting=uniform", "engine.batch=2"),
    "all at work": ("buffer=3", "concurrency=8", *LINKS),
    "cached": ("buffer=2", "aggregation=cached", "model=mlp", "model.hidden=[8]"),
    "all at the same time": ("buffer=4", "devices.spread=1"),
    "out of time": ("buffer=3", "virtual_seconds=0.35", *SLOW),
    "transformed": ("buffer=3", "upload=clip_noise+topk+quantise", *LINKS),
}


def loop(*overrides, by_buffers=True):
    config = compose.config([*SMALL, *overrides])
    made = build({**config, "engine": {**config["engine"], "workers": 1}}).loop
    assert made.by_buffers
    if not by_buffers:
        made.by_buffers, made.clock = False, Clock()
    return made


def same(*overrides):
    buffers, events = loop(*overrides), loop(*overrides, by_buffers=False)
    assert repr(history(buffers)) == repr(history(events))
    one, two = state(buffers), state(events)
    assert one.keys() == two.keys() and all(torch.equal(value, two[name]) for name, value in one.items())
    return buffers


def methods():
    for name, algo in sorted(classes("algo").items()):
        if algo.mail is None and not algo.pooled and "trace" not in algo().requires:
            yield name


@pytest.mark.parametrize("algo", methods())
def test_every_method_gets_the_same_uploads(algo):
    assert same(f"algo={algo}", *ASYNC, "buffer=2", "arrivals_per_round=3", *SLOW).version == 13


@pytest.mark.parametrize("setting", SETTINGS)
def test_they_are_the_same_uploads(setting):
    found = same("algo=fedavg", *ASYNC, *SETTINGS[setting])
    assert found.out_of_time == (setting == "out of time")


def test_layers_that_are_chosen_on_arrival_are_the_same():
    images = ("dataset=fmnist", "dataset.source=synthetic", "dataset.samples=80", "partition=iid", "model.width=0.1")
    chosen = (*images, "algo=fed2a", "schedule=null", "algo.plu=upload", "algo.P=4", "algo.D=1", "algo.rce=false")
    assert loop(*chosen).algo.chooses_on_arrival
    found = same(*chosen, "buffer=2", "arrivals_per_round=3")
    assert len({found.traffic.upload(version)[1] for version in range(8)}) == 2


def test_the_first_to_arrive_broken_is_named():
    named = []
    for by_buffers in (True, False):
        one = loop("algo=fedavg", *ASYNC, "buffer=4", *SLOW, by_buffers=by_buffers)
        spoil(one)
        with pytest.raises(Diverged) as error:
            one.advance()
        named.append(error.value.facts)
    assert named[0] == named[1]


@pytest.mark.parametrize("keys", [("devices.loss=0.1",), ("on_divergence=drop",), ("devices.max_wait=1",)], ids=str)
def test_what_depends_on_learning_or_a_timer_goes_event_by_event(keys):
    assert not build(compose.config([*SMALL, "algo=fedavg", *ASYNC, "buffer=2", *keys])).loop.by_buffers


def test_a_checkpoint_that_names_who_starts_goes_on_alike():
    """As it was written while every start was an event of its own."""
    keys = ("algo=fedasync", "arrivals_per_round=2", *LINKS)
    events, buffers = loop(*keys, by_buffers=False), loop(*keys)
    for _ in range(3):
        events.advance()
    state = events.state_dict()
    assert any(kind == 3 and device >= 0 for _, kind, device, _ in state["clock"]["queue"])
    buffers.load_state_dict(state)
    assert repr(history(buffers)) == repr(history(events))
    assert buffers.traffic.down == events.traffic.down and buffers.clock.next_time() < math.inf

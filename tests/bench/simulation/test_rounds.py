"""A synchronous round as a whole is what its events, one by one, would have made of it."""

import math
from dataclasses import replace

import pytest
import torch

from bench.errors import Diverged
from bench.prepare import compose
from bench.prepare.assemble import build
from bench.prepare.registry import classes
from bench.record import TIMES
from tests.algorithms.loops import state

SMALL = ("dataset=digits", "clients=8", "cohort=4", "rounds=3", "epochs=2", "batch_size=40", "test_samples=64")
NETWORK = ("devices.rho=0.5", "devices.up=[1,3]", "devices.down=[2,5]", "devices.redraw=true")
SLOW = (*NETWORK, "devices.down=[0.02,2]", "cohort=8")  # some begin after others have arrived
SETTINGS = {
    "with replacement, two at a time": ("sampling=with_replacement", "engine.batch=2", "weighting=uniform"),
    "cached": ("aggregation=cached", "model=mlp", "model.hidden=[8]"),
    "out of time": ("virtual_seconds=0.35", "devices.spread=30"),
    "transformed": ("upload=clip_noise+topk+quantise", "sampling=with_replacement"),
}


def loop(*overrides, at_once=True):
    config = compose.config([*SMALL, *overrides])
    made = build({**config, "engine": {**config["engine"], "workers": 1}}).loop
    assert made.at_once
    made.at_once = at_once
    return made


def history(loop):
    rows = []
    while not loop.finished:
        row = loop.advance()
        rows.append({name: value for name, value in row.items() if name not in TIMES} | {"jobs": list(loop.ended)})
    return rows


def same(*overrides, spoil=None):
    whole, events = loop(*overrides), loop(*overrides, at_once=False)
    for one in (whole, events):
        if spoil is not None:
            spoil(one)
    assert repr(history(whole)) == repr(history(events))
    one, two = state(whole), state(events)
    assert one.keys() == two.keys() and all(torch.equal(value, two[name]) for name, value in one.items())
    return whole


def synchronous():
    for name, algo in sorted(classes("algo").items()):
        if algo.mail is None:
            yield name


@pytest.mark.parametrize("algo", synchronous())
def test_every_method_gets_the_same_round(algo):
    whole = same(f"algo={algo}", "schedule=sync", *SLOW)
    if whole.algo.personal != "all":  # nothing is sent
        assert max(job[3] for job in whole.ended) > min(job[5] for job in whole.ended)


def test_a_cohort_that_trains_again_before_the_round_counts_is_the_same():
    whole = same("algo=fedagg", "algo.mean_field=fixed_point", "schedule=sync", "rounds=2", *SLOW)
    assert whole.arrivals > 2 * 8


@pytest.mark.parametrize("setting", SETTINGS)
def test_it_is_the_same_round(setting):
    whole = same("algo=fedavg", *NETWORK, *SETTINGS[setting])
    assert whole.out_of_time == (setting == "out of time")


def spoil(loop):
    """The second device of every call comes back broken."""
    train = loop.engine.train

    def broken(*arguments):
        trained, evaluations = train(*arguments)
        end = trained.end.clone()
        end[1, 0] = math.nan
        return replace(trained, end=end), evaluations

    loop.engine.train = broken


def test_a_device_that_diverged_is_left_out_alike():
    whole = same("algo=scaffold", "on_divergence=drop", *NETWORK, spoil=spoil)
    assert whole.dropped == 3


def test_the_first_to_arrive_broken_is_named():
    named = []
    for at_once in (True, False):
        one = loop("algo=fedavg", *NETWORK, at_once=at_once)
        spoil(one)
        with pytest.raises(Diverged) as error:
            one.advance()
        named.append(error.value.facts)
    assert named[0] == named[1]


def test_nothing_is_under_way_between_two_rounds():
    one = loop("algo=fedavg")
    one.advance()
    assert not one.jobs and not one.sent and one.clock.next_time() == math.inf

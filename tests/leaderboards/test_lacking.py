"""What the ledger says it lacks: every claim that can be run is asked for, and what is asked for measures it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import made
import pytest

from leaderboards import lacking, results, rivals
from leaderboards.ledger import load
from leaderboards.measure import Shelf, judged, measure, ordered
from leaderboards.plans import every
from leaderboards.results import Planned
from leaderboards.verdict import seeds_fixed
from sweeps.blocks import ClaimNeeds, Prices, campaign
from sweeps.plan import merged

ROOT = Path(__file__).resolve().parents[2]


@cache
def needs():
    return lacking.needs()


@cache
def found(paper_seconds):
    """At the paper's scale, or at scale=cpu."""
    return campaign(needs(), Prices(lambda run: paper_seconds, lambda run: True, lambda run: ""))


def filled(campaign, without=None):
    """As if every run of the campaign had been made, and every one that is there had ended like them."""
    jobs = {job for block in campaign.blocks for job in block.lacking} - {without}
    scale = campaign.blocks[0].scale
    wanted = [run.jobs(scale).items() for claim in needs() for run in claim.runs]
    there = {job for jobs in wanted for job, is_lacking in jobs if not is_lacking}
    seeds: dict[tuple[str, ...], list[int]] = {}
    for *words, seed in jobs | there:
        seeds.setdefault(tuple(words), []).append(int(seed.removeprefix("seed=")))
    runs = []
    for place in filter(lambda place: place.counts, every()):
        run, words = place.run, merged(place.run.overrides, f"scale={scale}")
        plan = (Planned(place.sweep.name, *run.label, run.overrides, scale),)
        runs += [
            replace(ONE, name=f"{words} {n}", config=ONE.config | {"seed": n}, plan=plan) for n in seeds.get(words, ())
        ]
    return judged(Shelf(runs))


ONE = made.result("fedlga/table6", "fedavg", "fmnist", "rho=0.5;tau_max=0.8E;E=5", accuracy=[0.5, 0.99])


def test_no_claim_that_can_be_run_is_left_out():
    campaign = found(1.0)
    asked = {claim for block in campaign.blocks for claim in block.claims}
    named = {claim for blocks in campaign.refused.values() for claims in blocks.values() for claim in claims}
    for claim in load():
        if not lacking.is_run(claim):
            assert claim.id not in asked | named
        elif claim.id not in asked | named:
            measured = measure(claim, judged(Shelf(results.committed())))
            assert measured is not None and len(measured.values) >= seeds_fixed(claim), claim.id
            assert measured.scale == "paper", claim.id
    assert campaign.measured + len(asked) + len(named) == sum(map(lacking.is_run, load()))


@pytest.mark.parametrize("seconds", [1.0, 1e9], ids=["paper", "cpu"])
def test_the_runs_of_the_blocks_measure_every_claim_in_them(seconds):
    campaign = found(seconds)
    assert {block.scale for block in campaign.blocks} == {"paper" if seconds == 1 else "cpu"}
    view, claims = filled(campaign), {claim.id: claim for claim in load()}
    for name in (name for block in campaign.blocks for name in block.claims):
        claim = claims[name]
        measured = measure(claim, view)
        assert measured is not None and len(measured.values) == seeds_fixed(claim), name
        if (other := rivals.rival(claim)) is not None:
            assert len(ordered(claim, view)) == min(seeds_fixed(claim), seeds_fixed(other)), name


def test_no_run_is_asked_for_in_vain():
    """Without any one of a claim's runs it, or its ordering, lacks a seed."""
    campaign, claims = found(1.0), {claim.id: claim for claim in load()}
    whole = filled(campaign)
    for block in campaign.blocks[::10]:
        for name in list(block.claims)[::9]:
            claim = claims[name]
            view = filled(campaign, without=min(block.lacks[name]))
            before, after = ((measure(claim, v), ordered(claim, v)) for v in (whole, view))
            seeds = [(len(one.values) if one else 0, len(pairs)) for one, pairs in (before, after)]
            assert seeds[1] < seeds[0], name


def test_it_is_printed_as_json():
    words = [sys.executable, "-P", "-m", "leaderboards.lacking"]
    done = subprocess.run(words, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True)
    assert [ClaimNeeds.of(claim) for claim in json.loads(done.stdout)] == needs()

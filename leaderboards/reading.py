"""One run's number for a claim, in the claim's unit; infinity is never."""

from __future__ import annotations

import math

from bench.metrics import ACCURACY, GB
from leaderboards.ledger import Claim
from leaderboards.papers import special
from leaderboards.plans import Cell
from leaderboards.results import CommittedRun

HIGHER = ("accuracy", "gain", "speedup", "reduction")  # in the names of metrics that are better when larger
# what is counted in metrics.csv, from the start and over all devices
WAYS = {"upload_to_target": ("bytes_up",), "traffic_to_target": ("bytes_up", "bytes_down", "bytes_peer")}


def higher(metric: str) -> bool:
    """Is more better?"""
    return any(word in metric for word in HIGHER)


def raw(run: CommittedRun, claim: Claim, metric: str, wanted: Cell, goal: float | None) -> float:
    """One run's number in the claim's unit. `goal`: the accuracy to reach, if it is not the run's target."""
    result = run.result
    if metric in ("final_accuracy", "best_accuracy"):
        if run.metric != ACCURACY:
            return math.nan
        value = 1 / result.data["classes"] if result.has_diverged else _there(result.number(metric))
        return value * (100 if claim.unit.startswith("%") else 1)
    if metric == "parameters":
        return float(result.model["parameters"])
    if metric == "seconds_per_round":
        return _there(result.seconds_per_round)
    if metric == "accuracy_at_time":
        return math.nan  # read at a converted time, leaderboards.measure
    reached = run.metric.rounds_to(result.target if goal is None else goal, run.column(run.metric.column))
    if reached is None or result.has_diverged:
        return math.inf
    if metric == "seconds_to_target":
        return _there(result.seconds_to_target)
    if metric == "virtual_seconds_to_target":
        return run.column("virtual_seconds")[reached - 1]
    if reading := special(claim.paper).readings.get(metric):
        return reading(reached, wanted)
    if metric in WAYS:
        return sum(run.column(way)[reached - 1] for way in WAYS[metric]) / GB
    return float(reached)


def _there(value: float | None) -> float:
    assert value is not None
    return float(value)

"""One run's number for a claim, in the claim's unit; infinity is never."""

from __future__ import annotations

import math
from collections.abc import Callable

from bench.metrics import GB, rounds_to_target
from leaderboards import rivals
from leaderboards.ledger import Claim
from leaderboards.papers import special
from leaderboards.plans import Cell
from leaderboards.results import Result

HIGHER = ("accuracy", "gain", "speedup", "reduction")  # in the names of metrics that are better when larger
# what is counted in metrics.csv, from the start and over all devices
WAYS = {"upload_to_target": ("bytes_up",), "traffic_to_target": ("bytes_up", "bytes_down", "bytes_peer")}


def higher(metric: str) -> bool:
    """Is more better?"""
    return any(word in metric for word in HIGHER)


def raw(result: Result, claim: Claim, metric: str, wanted: Cell) -> float:
    """One run's number in the claim's unit."""
    outcome = result.result
    if metric in ("final_accuracy", "best_accuracy"):
        chance = 1 / outcome["data"]["classes"]
        value = chance if result.diverged else outcome[metric]
        return float(value) * (100 if claim.unit.startswith("%") else 1)
    if metric == "parameters":
        return float(outcome["model"]["parameters"])
    if metric == "seconds_per_round":
        return float(outcome[metric])
    if metric == "accuracy_at_time":
        return math.nan  # read at a converted time, leaderboards.measure
    goal = rivals.target(claim)
    reached = rounds_to_target(_accuracies(result), outcome["target"] if goal is None else goal)
    if reached is None or result.diverged:
        return math.inf
    if metric == "seconds_to_target":
        return float(outcome["seconds_to_target"])
    if metric == "virtual_seconds_to_target":
        return _row(result, "virtual_seconds", reached)
    if reading := special(claim.paper).readings.get(metric):
        return reading(reached, wanted)
    if metric in WAYS:
        return sum(_row(result, way, reached) for way in WAYS[metric]) / GB
    return float(reached)


def _row(result: Result, column: str, round: int) -> float:
    value = result.rows[column][round - 1]
    assert value is not None, column
    return value


def reader(claim: Claim, metric: str, wanted: Cell) -> Callable[[Result], float]:
    return lambda result: raw(result, claim, metric, wanted)


def accuracy_by(result: Result, seconds: float) -> float:
    accuracy: float = 1 / int(result.result["data"]["classes"])
    for when, value in zip(result.rows["virtual_seconds"], result.rows["test_accuracy"], strict=True):
        if when is not None and when > seconds:
            break
        accuracy = accuracy if value is None else value
    return accuracy


def _accuracies(result: Result) -> list[float]:
    return [math.nan if value is None else value for value in result.rows["test_accuracy"]]

"""One run's number for a claim, in the claim's unit; infinity is never."""

from __future__ import annotations

import math
from collections.abc import Callable

from bench.metrics import rounds_to_target, upload_cost
from leaderboards import own, rivals
from leaderboards.arithmetic import PERIOD, deep_rounds
from leaderboards.ledger import Claim
from leaderboards.plans import Cell
from leaderboards.results import Result

HIGHER = ("accuracy", "gain", "speedup", "reduction")  # in the names of metrics that are better when larger


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
        seconds = result.rows["virtual_seconds"][reached - 1]
        assert seconds is not None
        return seconds
    return _upload(reached, wanted) if metric == "upload_to_target" else float(reached)


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


def _upload(rounds: int, wanted: Cell) -> float:
    """Fed2A's I3 of the paper's network: GB that one client uploads."""
    shallow, deep = own.layers("fed2a")[wanted.dataset]
    return upload_cost(rounds, shallow, deep, PERIOD, deep_rounds(wanted.method, wanted.dataset))

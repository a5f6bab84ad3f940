"""What may be claimed: the units of each metric, and how a claim about two runs follows from a number of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Formula = Callable[..., float]


@dataclass(frozen=True)
class Metric:
    units: tuple[str, ...]  # in which it is printed; an empty one is a plain number or a fraction
    label: str | None = None  # for people; None: its name
    comparison: tuple[str, Formula] | None = None  # about two runs: the metric that both have, and what is made of it
    ordinal: bool = False  # claimed is which of the two is ahead, in a word


def fewer(new: float, old: float) -> float:
    return 100 * (1 - new / old)


def more(new: float, old: float) -> float:
    return 100 * (new / old - 1)


def points(new: float, old: float) -> float:
    return 100 * (new - old)


def share(new: float, old: float) -> float:
    return 100 * new / old


METRICS = {
    "final_accuracy": Metric(("%", ""), "accuracy"),
    "best_accuracy": Metric(("%", "")),
    "accuracy_at_time": Metric(("",)),
    "parameters": Metric(("",)),
    "rounds_to_target": Metric(("rounds",)),
    "seconds_per_round": Metric(("s",), "s a round"),
    "seconds_to_target": Metric(("s",), "s to target"),
    "virtual_seconds_to_target": Metric(("s",), "s to target"),
    "upload_to_target": Metric(("GB",), "GB to target"),
    "traffic_to_target": Metric(("GB",), "GB to target"),
    "accuracy_gain": Metric(("%", "% relative"), comparison=("final_accuracy", more)),
    "round_reduction": Metric(("%",), comparison=("rounds_to_target", fewer)),
    "time_reduction": Metric(("%",), comparison=("virtual_seconds_to_target", fewer)),
    "upload_reduction": Metric(("%",), comparison=("upload_to_target", fewer)),
    "upload_ratio": Metric(("%",), comparison=("upload_to_target", share)),
    "accuracy_order": Metric(("",), comparison=("final_accuracy", points), ordinal=True),
    "best_accuracy_order": Metric(("",), comparison=("best_accuracy", points), ordinal=True),
    "rounds_order": Metric(("",), comparison=("rounds_to_target", more), ordinal=True),
    "time_order": Metric(("",), comparison=("virtual_seconds_to_target", more), ordinal=True),
}

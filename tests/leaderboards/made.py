"""Made-up results for tests: real plans, invented numbers. They exist in memory and in temporary folders only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.output.result import RunResult
from leaderboards.plans import every
from leaderboards.results import CommittedRun, Planned, name_of

MACHINE = {"cpu": "made up", "cores": 2, "system": "test", "others": 0.0}


def result(
    sweep: str,
    method: str,
    dataset: str,
    setting: str,
    *,
    seed: int = 0,
    accuracy: Sequence[float | None],
    scale: str = "paper",
    target: float = 0.65,
    classes: int = 10,
    seconds: float = 0.1,
    point: int = 0,
    pace: float = 2.0,
    differs: Mapping[str, tuple[Any, Any]] | None = None,
    group: str | None = "one batch",
    **changes: Any,
) -> CommittedRun:
    """As if a run of this cell of a plan (its `point`-th) had had these accuracies; `pace`: virtual seconds a round."""
    places = [p for p in every() if (p.sweep.name, *p.run.label) == (sweep, method, dataset, setting)]
    run = places[point].run
    reached = next((t for t, a in enumerate(accuracy, 1) if a is not None and a >= target), None)
    rounds = len(accuracy)
    words = dict(word.split("=", 1) for word in run.overrides)
    config = {"algo": {"name": words["algo"]}, "dataset": {"name": words["dataset"]}, "seed": seed, "x": str(run)}
    seen = [a for a in accuracy if a is not None]
    outcome: dict[str, Any] = {
        **{"id": f"made-{method}-{seed}", "rounds": rounds, "target": target, "rounds_to_target": reached},
        **{"final": accuracy[-1], "best": max(seen), "seconds_per_round": seconds},
        **{"seconds_to_target": None if reached is None else seconds * reached, "machine": MACHINE, "engine": "eager"},
        **{"data": {"classes": classes, "source": "made up", "deviation": None}, "git_revision": "0" * 40},
        **{"weights_sha256": f"{method}{seed}", "algo": words["algo"], "seed": seed, "versions": {}},
        **changes,
    }
    rows: dict[str, list[float | None]] = {
        "test_accuracy": list(accuracy),
        "virtual_seconds": [pace * t for t in range(1, rounds + 1)],
        **{name: [1_000_000 * t for t in range(1, rounds + 1)] for name in ("bytes_up", "bytes_down")},
        "bytes_peer": [0] * rounds,
    }
    planned = Planned(sweep, method, dataset, setting, run.overrides, scale, dict(differs or {}))
    return CommittedRun(
        name_of(config),
        config,
        {"name": "eager"},
        group,
        "python bench.py",
        "2026-11-16",
        (planned,),
        rows,
        RunResult(**outcome),
    )


def crossing(reached: int | None, rounds: int = 200, target: float = 0.65) -> list[float]:
    """A curve that reaches the target in this round, or never."""
    return [target + 0.01 if reached is not None and t >= reached else 0.3 for t in range(1, rounds + 1)]


def table_vi(
    rounds: Mapping[str, Sequence[int | None]], tau_max: str = "0.8E", scale: str = "paper", **more: Any
) -> list[CommittedRun]:
    """FedLGA's Table VI on FMNIST: rounds to 65 % per method, one per seed."""
    setting = f"rho=0.5;tau_max={tau_max};E=5"
    return [
        result("fedlga/table6", m, "fmnist", setting, seed=seed, accuracy=crossing(n), scale=scale, **more)
        for m, numbers in rounds.items()
        for seed, n in enumerate(numbers)
    ]

"""What result.json holds, and with it every table, page, sweep and verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from bench.metrics import ACCURACY, Metric
from bench.output import versions

OF_METRIC = ("final", "best")


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The outcome of a run; what has a default may be missing where only a part of it was kept.

    None is a number that there is none of: the target was never reached, or the run diverged before it was measured.
    """

    id: str
    group: str | None = None
    algo: str = ""
    dataset: str = ""
    partition: str = ""
    protocol: str = ""
    scale: str = ""
    seed: int = 0
    rounds: int
    aggregations: int | None = None
    metric: Metric = ACCURACY  # of which the next two are numbers; in result.json final_accuracy and best_accuracy
    final: float | None
    best: float | None
    final_loss: float | None = None
    target: float
    rounds_to_target: int | None
    seconds_per_round: float | None = None  # of training and aggregation; evaluation is not in it
    aggregate_seconds_per_round: float | None = None
    seconds_to_target: float | None = None
    wall_seconds: float | None = None
    virtual_seconds: float | None = None
    upload_bytes: int | None = None
    download_bytes: int | None = None
    peer_bytes: int | None = None
    gradient_evaluations: int | None = None
    prerun: dict[str, Any] | None = None
    peak_memory_bytes: int | None = None
    report: dict[str, float | None] = field(default_factory=dict)  # what the method itself reports
    data: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    engine: str = ""
    engine_why: str = ""
    workers: int = 0
    dropped: int = 0
    weights_sha256: str = ""
    git_revision: str | None = None  # when it ended; config.yaml has that of its beginning
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    forecast: dict[str, float] = field(default_factory=dict)
    diverged: dict[str, Any] | None = None  # when and where

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], path: object) -> RunResult:
        """Of this version or an older one; `path` is where it was found. TypeError: it is no result."""
        found = versions.upgraded(data, versions.RESULT, path)
        try:
            metric = Metric(**found.pop("metric"))
            own = {which: found.pop(f"{which}_{metric.name}") for which in OF_METRIC}
        except KeyError as error:
            raise TypeError(f"it has no {error}") from None
        return cls(**found, **own, metric=metric)

    def to_dict(self) -> dict[str, Any]:
        """Plain, as JSON can hold it: without NaN, and without `diverged` in a run that did not."""
        found = {self.key(f.name): plain(getattr(self, f.name)) for f in fields(self)}
        found["metric"] = asdict(self.metric)
        if self.diverged is None:
            del found["diverged"]
        return {"format": versions.FORMAT, **found}

    def key(self, field: str) -> str:
        """The name of a field in result.json."""
        return f"{field}_{self.metric.name}" if field in OF_METRIC else field

    def flat(self) -> dict[str, Any]:
        """What fits into one row of a table."""
        return {name: value for name, value in self.to_dict().items() if not isinstance(value, dict | list)}

    def number(self, key: str) -> float | None:
        """final and best have their metric's name, too: final_accuracy, which there is none of with another metric."""
        which, _, name = key.partition("_")
        if which in OF_METRIC and name not in ("", "loss"):
            if name != self.metric.name:
                return None
            key = which
        value: float | None = getattr(self, key)
        return None if value is None or math.isnan(value) else value

    @property
    def has_diverged(self) -> bool:
        return self.final is None or self.diverged is not None


def plain(value: Any) -> Any:
    """JSON has no NaN: null."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

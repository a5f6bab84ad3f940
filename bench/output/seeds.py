"""The runs of one setting over seeds, and one number of theirs: mean, interval, never (m of n), paired differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Generic, Protocol, TypeVar

from bench.metrics import PLUS_MINUS, Metric, mean_interval


class Finished(Protocol):
    """A run that is over: a record, a committed result, or what a sweep kept."""

    @property
    def metric(self) -> Metric:
        """By which it is judged: runs that are compared have the same."""

    def number(self, key: str) -> float | None:
        """Of its result; None: there is none."""


class Drawn(Finished, Protocol):
    """One with its reporting rounds."""

    def column(self, name: str) -> Sequence[float]:
        """A number per round; NaN: not measured in that round."""


FinishedRun = TypeVar("FinishedRun", bound=Finished, covariant=True)


@dataclass(frozen=True)
class SeedNumbers:
    """A number per seed; infinite: this seed has none, since it never reached the target, or diverged."""

    by_seed: Mapping[int, float]

    @property
    def values(self) -> list[float]:
        return [self.by_seed[seed] for seed in sorted(self.by_seed)]

    @property
    def missed(self) -> int:
        return sum(map(math.isinf, self.by_seed.values()))

    @property
    def known(self) -> SeedNumbers:
        """Of the seeds that have one."""
        return SeedNumbers({seed: value for seed, value in self.by_seed.items() if math.isfinite(value)})

    @property
    def mean(self) -> float:
        """NaN without a seed, infinite if one has no number."""
        return math.fsum(self.values) / len(self.by_seed) if self.by_seed else math.nan

    @property
    def half(self) -> float | None:
        """Half the width of the 95 % interval; None: too few seeds."""
        return mean_interval(self.values)[1] if len(self.by_seed) > 1 and not self.missed else None

    def times(self, factor: float) -> SeedNumbers:
        return SeedNumbers({seed: factor * value for seed, value in self.by_seed.items()})

    def common(self, other: SeedNumbers) -> dict[int, tuple[float, float]]:
        """Both numbers, of the seeds that both have."""
        return {s: (self.by_seed[s], other.by_seed[s]) for s in sorted(self.by_seed.keys() & other.by_seed.keys())}

    def paired(self, other: SeedNumbers, formula: Callable[[float, float], float]) -> SeedNumbers:
        """Seed by seed; a pair of which the formula makes NaN tells nothing."""
        found = {seed: formula(*pair) for seed, pair in self.common(other).items()}
        return SeedNumbers({seed: value for seed, value in found.items() if not math.isnan(value)})

    def text(self, form: str, missing: str = "never", half_form: str | None = None) -> str:
        """For people: 61.2 ± 0.8, or never (1 of 3), as a mean over the others would flatter."""
        if not self.by_seed or len(self.by_seed) == self.missed == 1:
            return missing
        if self.missed:
            return f"{missing} ({self.missed} of {len(self.by_seed)})"
        mean, half = self.mean, self.half
        return format(mean, form) if half is None else f"{mean:{form}} {PLUS_MINUS} {half:{half_form or form}}"


@dataclass(frozen=True)
class SeedRuns(Generic[FinishedRun]):
    """The finished runs of one setting, one per seed."""

    label: str
    by_seed: Mapping[int, FinishedRun]

    def __len__(self) -> int:
        return len(self.by_seed)

    @property
    def runs(self) -> list[FinishedRun]:
        return [self.by_seed[seed] for seed in sorted(self.by_seed)]

    @property
    def metric(self) -> Metric:
        return self.runs[0].metric

    def numbers(self, key: str) -> SeedNumbers:
        """Of the results."""
        return self.each(methodcaller("number", key))

    def each(self, number: Callable[[FinishedRun], float | None]) -> SeedNumbers:
        """What is read off each run; None: it has none."""
        found = {seed: number(run) for seed, run in self.by_seed.items()}
        return SeedNumbers({seed: math.inf if value is None else float(value) for seed, value in found.items()})

    @property
    def diverged(self) -> int:
        """How many of them."""
        return self.numbers("final").missed

    @property
    def merit(self) -> float:
        """Of what they ended with: more is better."""
        return self.metric.merit(self.numbers("final").known.mean)


def target_text(settings: Iterable[SeedRuns[Finished]]) -> str:
    """What rounds are counted to: 65 %, or "target" where there are several."""
    targets = {runs.metric.goal(value) for runs in settings for value in runs.numbers("target").values}
    return targets.pop() if len(targets) == 1 else "target"

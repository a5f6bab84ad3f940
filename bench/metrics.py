"""Numbers derived from finished rounds; arithmetic only, no torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

BYTES_PER_PARAMETER = 4
MB = 2**20
GB = 2**30
PLUS_MINUS = "\N{PLUS-MINUS SIGN}"


def rounds_to_target(accuracy: Iterable[float], target: float) -> int | None:
    """The first round (1-based) whose accuracy is at least `target`; NaN = not evaluated; None = never."""
    return next((t for t, value in enumerate(accuracy, start=1) if value >= target), None)


def upload_cost(rounds: int, shallow: int, deep: int, P: int, D: int) -> float:
    """Fed2A's I3: the GB one client uploads in `rounds` rounds under PLU(R, P, D); P = D: everything every round."""
    with_deep = sum(t < P or t % P >= P - D for t in range(rounds))
    return (rounds * shallow + with_deep * deep) * BYTES_PER_PARAMETER / GB


def mean_interval(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and half-width of the 95 % t interval; one value has no interval."""
    n = len(values)
    mean = math.fsum(values) / n
    if n < 2:
        return mean, None
    from scipy.special import stdtrit  # a third of a second, for several seeds only

    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    return mean, float(stdtrit(n - 1, 0.975)) * deviation / math.sqrt(n)

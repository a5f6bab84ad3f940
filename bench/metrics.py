"""Numbers derived from finished rounds; arithmetic only, no torch."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

BYTES_PER_PARAMETER = 4
MB = 2**20
GB = 2**30
PLUS_MINUS = "\N{PLUS-MINUS SIGN}"


@dataclass(frozen=True)
class Metric:
    """What runs are judged by: how it is called and written, and which of two numbers is the better one."""

    name: str  # in keys: test_rmse, final_rmse
    label: str  # for people
    unit: str = ""  # after a number
    factor: float = 1  # from what is recorded to what is written: 100 for a share in %
    digits: int = 3  # after the point
    higher: bool = True  # is better

    def __post_init__(self) -> None:
        """TypeError: what a user's task or a record says is no metric."""
        if not (isinstance(self.name, str) and re.fullmatch("[a-z][a-z0-9_]{0,30}", self.name)) or self.name == "loss":
            raise TypeError(
                f"name={self.name!r} of a metric: it has to be of small letters, digits and _, and not loss"
            )
        for key, text, longest in (("label", self.label, 40), ("unit", self.unit, 10)):
            if not (isinstance(text, str) and len(text) <= longest and text.isprintable()):
                raise TypeError(f"{key}={text!r} of a metric: it has to be at most {longest} printable characters")
        if not (type(self.factor) in (int, float) and 0 < self.factor < math.inf):
            raise TypeError(f"factor={self.factor!r} of a metric: it has to be a number above 0")
        if not (type(self.digits) is int and 1 <= self.digits <= 9 and type(self.higher) is bool):
            raise TypeError(
                f"digits={self.digits!r}, higher={self.higher!r} of a metric: give 1 to 9, and True or False"
            )

    @property
    def column(self) -> str:
        """Of metrics.csv."""
        return f"test_{self.name}"

    @property
    def heading(self) -> str:
        """Of a column of a table: accuracy %, RMSE."""
        return self.with_unit(self.label)

    @property
    def axis(self) -> str:
        """Of a picture: test accuracy (%), test RMSE."""
        return f"test {self.label}" + f" ({self.unit})" * bool(self.unit)

    def with_unit(self, text: str) -> str:
        return f"{text} {self.unit}".rstrip()

    def text(self, value: float) -> str:
        """93.89 %"""
        return self.with_unit(f"{self.factor * value:.{self.digits}f}")

    def roughly(self, value: float) -> str:
        """93.9 %"""
        return self.with_unit(f"{self.factor * value:.{self.digits - 1}f}")

    def named(self, value: float) -> str:
        """As it stands alone: 93.9 %, RMSE 54.32"""
        return self.roughly(value) if self.unit else f"{self.label} {self.roughly(value)}"

    def goal(self, value: float) -> str:
        """A number that somebody chose: 90 %"""
        return self.with_unit(f"{self.factor * value:g}")

    def best(self, values: Iterable[float]) -> float | None:
        """NaN: not evaluated; None: none was."""
        known = (value for value in values if not math.isnan(value))
        return max(known, default=None) if self.higher else min(known, default=None)

    def merit(self, value: float) -> float:
        """More is better: to compare by."""
        return value if self.higher else -value

    def rounds_to(self, target: float, values: Iterable[float]) -> int | None:
        """The first round (1-based) at the target or beyond; NaN: not evaluated; None: never."""
        reached = (t for t, value in enumerate(values, 1) if self.merit(value) >= self.merit(target))
        return next(reached, None)


ACCURACY = Metric("accuracy", "accuracy", "%", 100, digits=2)


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

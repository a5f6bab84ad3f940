"""What follows from a paper's own other numbers. It can only show that a paper agrees with itself, or does not.

A claim is recomputed from the numbers it follows from. It is consistent if the printed digits can come out, given that
each of those numbers was itself rounded when it was printed (counts were not), and inconsistent otherwise. Seconds to
target are the exception: within 0.5 % of seconds per round times rounds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from bench.metrics import BYTES_PER_PARAMETER, MB, upload_cost
from leaderboards.ledger import SLACK, Claim

SECONDS_TOLERANCE = 0.005
BASELINES = ("fedavg", "fedprox", "fedasync")  # Fed2A's
PERIOD = 10  # Fed2A's P
DEEP_ROUNDS = {"fmnist": 7, "cifar10": 8, "gtsrb": 8}  # D of "Fed2A *", the note below Table 4
# the accuracies that FedLC's reductions of time refer to: its other method's, or the fastest baseline's
FEDLC_TARGETS = {
    "time_reduction": {"cifar10": 0.61, "emnist_byclass": 0.62, "image100": 0.36},
    "time_reduction_at_least": {"cifar10": 0.6, "emnist_byclass": 0.6, "image100": 0.4},
}
Formula = Callable[..., float]


@dataclass(frozen=True)
class Derivation:
    """How a claim follows from others of the same paper."""

    formula: Formula
    inputs: tuple[Claim, ...]
    words: str  # the formula for people
    tolerance: float = 0.0  # relative, instead of the printed digits

    @property
    def value(self) -> float:
        """From the numbers as printed."""
        return self.formula(*(claim.number for claim in self.inputs))

    def bounds(self) -> tuple[float, float]:
        """From all numbers that print as these do; the formulas are monotonic in each."""
        ends = [sorted({claim.number - claim.half, claim.number + claim.half}) for claim in self.inputs]
        values = [self.formula(*corner) for corner in product(*ends)]
        return min(values), max(values)

    def agrees(self, claim: Claim) -> bool:
        if self.tolerance:
            return abs(claim.number - self.value) <= self.tolerance * self.value
        low, high = self.bounds()
        return low - SLACK <= claim.number + claim.half and claim.number - claim.half <= high + SLACK


class Book:
    """The claims by what they are about, to find the ones that others follow from."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        self._by_key = {(c.paper, c.where, c.method, c.dataset, c.setting, c.metric): c for c in claims}

    def get(self, like: Claim, **changes: str) -> Claim:
        """The claim that differs from `like` in these columns only."""
        if (found := self.find(like, **changes)) is None:
            raise KeyError(f"no claim is like {like.id} with {changes}")
        return found

    def find(self, like: Claim, **changes: str) -> Claim | None:
        columns = ("paper", "where", "method", "dataset", "setting", "metric")
        return self._by_key.get(tuple(changes.get(name, getattr(like, name)) for name in columns))

    def best_baseline(self, claim: Claim, metric: str) -> Claim:
        """Fed2A's "best baseline": of those that got there at all."""
        rows = [self.get(claim, where="Table 4", method=name, metric="rounds_to_target") for name in BASELINES]
        cells = [self.get(row, metric=metric) for row in rows if row.value is not None or metric == "final_accuracy"]
        return max(cells, key=lambda c: c.number if metric == "final_accuracy" else -c.number)


def derivation(claim: Claim, book: Book) -> Derivation | None:
    """How a claim follows from the others; None if it does not, or if it is `never`."""
    find = RULES.get((claim.paper, claim.metric)) or RULES.get((claim.paper, claim.where)) or _from_both
    return find(claim, book) if claim.value is not None else None


def fewer(new: float, old: float) -> float:
    return 100 * (1 - new / old)


def more(new: float, old: float) -> float:
    return 100 * (new / old - 1)


# claims about two runs: the number that both have, and how the claim follows from it
COMPARISONS: dict[str, tuple[str, Callable[[float, float], float]]] = {
    "fedlga_round_speedup_over_method": ("rounds_to_target", lambda new, old: old / new),
    "fedlga_best_accuracy_gain_over_method": ("best_accuracy", more),
    "round_reduction": ("rounds_to_target", fewer),
    "upload_reduction": ("upload_to_target", fewer),
    "upload_ratio": ("upload_to_target", lambda new, old: 100 * new / old),
    "accuracy_gain": ("final_accuracy", more),
    "time_reduction": ("virtual_seconds_to_target", fewer),
    "time_reduction_at_least": ("virtual_seconds_to_target", fewer),
}


def _from_both(claim: Claim, book: Book) -> Derivation | None:
    """A claim of "a vs b" in a place that prints the number of each."""
    own, versus, base = claim.method.partition(" vs ")
    if not versus or claim.metric not in COMPARISONS:
        return None
    metric, formula = COMPARISONS[claim.metric]
    pair = [book.find(claim, method=name, metric=metric) for name in (own, base)]
    inputs = tuple(found for found in pair if found is not None and found.value is not None)
    if len(inputs) < 2:
        return None
    return Derivation(formula, inputs, f"{inputs[0].text} against {inputs[1].text}, {claim.where}")


def _seconds_to_target(claim: Claim, book: Book) -> Derivation:
    single, rounds = book.get(claim, metric="seconds_per_round"), _table_vi(claim, book, claim.method)
    words = f"{single.printed} s a round x {rounds.printed} rounds"
    return Derivation(lambda a, b: a * b, (single, rounds), words, SECONDS_TOLERANCE)


def _table_vi(claim: Claim, book: Book, method: str) -> Claim:
    """The rounds in FedLGA's default setting: with E = 5 its tau_max = E - 1 is Table VI's 0.8 E."""
    setting = "rho=0.5;tau_max=0.8E;E=5"
    return book.get(claim, where="Table VI", method=method, setting=setting, metric="rounds_to_target")


def _speedup(claim: Claim, book: Book) -> Derivation:
    base, own = _table_vi(claim, book, claim.method), _table_vi(claim, book, "fedlga")
    words = f"{base.printed} / {own.printed} rounds, Table VI"
    return Derivation(lambda a, b: a / b, (base, own), words)


def _gain_over_fedavg(claim: Claim, book: Book) -> Derivation | None:
    if claim.method != "fedavg":
        return None  # the others' best accuracies are only drawn
    own, base = (
        book.get(claim, where="abstract", method=name, setting="rho=0.5", metric="best_accuracy")
        for name in ("fedlga", "fedavg")
    )
    return Derivation(more, (own, base), f"{own.printed} % against {base.printed} %, abstract")


def _fewer_rounds_with_more_devices(claim: Claim, book: Book) -> Derivation:
    many = book.get(claim, setting="rho=0.5;E=5;K=25", metric="rounds_to_target")
    few = _table_vi(claim, book, claim.method)
    return Derivation(fewer, (many, few), f"{many.printed} rounds instead of {few.printed}, Table VI")


def _unit_cost(claim: Claim, book: Book) -> Derivation:
    count = book.get(claim, metric="parameters")
    words = f"{BYTES_PER_PARAMETER} bytes x {count.printed} parameters"
    return Derivation(lambda n: n * BYTES_PER_PARAMETER / MB, (count,), words)


def _uploads(claim: Claim, book: Book, rounds: int, deep_rounds: int) -> Derivation:
    counts = tuple(
        book.get(claim, where="Table 3", method="-", setting=layers, metric="parameters")
        for layers in ("shallow", "deep")
    )
    words = f"uploads of {rounds} rounds with P = {PERIOD}, D = {deep_rounds}, Table 3"
    return Derivation(lambda s, d: upload_cost(rounds, int(s), int(d), PERIOD, deep_rounds), counts, words)


def _upload_to_target(claim: Claim, book: Book) -> Derivation:
    rounds = int(book.get(claim, metric="rounds_to_target").number)
    return _uploads(claim, book, rounds, deep_rounds(claim.method, claim.dataset))


def deep_rounds(method: str, dataset: str) -> int:
    """In how many rounds of a period one of Fed2A's strategies sends the deep layers too."""
    if plu := re.fullmatch(rf"plu\(300,{PERIOD},(\d+)\)", method):
        return int(plu[1])
    return DEEP_ROUNDS[dataset] if method == "fed2a" else PERIOD


def _upload_total(claim: Claim, book: Book) -> Derivation:
    return _uploads(claim, book, int(claim.setting.removeprefix("R=")), PERIOD)


def _against_best_baseline(formula: Formula, metric: str) -> Callable[[Claim, Book], Derivation]:
    def find(claim: Claim, book: Book) -> Derivation:
        own = book.get(claim, where="Table 4", method=claim.method.partition(" vs ")[0], metric=metric)
        base = book.best_baseline(claim, metric)
        return Derivation(formula, (own, base), f"{own.text} against {base.text} of {base.method}, Table 4")

    return find


def _upload_ratio(claim: Claim, book: Book) -> Derivation:
    own, base = (
        book.get(claim, where="Table 4", method=name, metric="upload_to_target") for name in claim.method.split(" vs ")
    )
    return Derivation(lambda a, b: 100 * a / b, (own, base), f"{own.text} / {base.text}, Table 4")


def _time_reduction(claim: Claim, book: Book) -> Derivation:
    new, vs, old = claim.method.partition(" vs ")
    old = old if vs else "ce_afl"  # the fastest of the three baselines
    setting = f"{claim.setting};target={FEDLC_TARGETS[claim.metric][claim.dataset]:g}"
    a, b = (book.get(claim, method=m, setting=setting, metric="virtual_seconds_to_target") for m in (new, old))
    return Derivation(fewer, (a, b), f"{a.text} instead of {b.text}, {claim.where}")


def _repeated(claim: Claim, book: Book) -> Derivation | None:
    """Table V shows the 20 % columns of three methods of Table III again."""
    if claim.method not in ("fedavg", "fedadam", "fedagg"):
        return None
    first = book.get(claim, where="Table III")
    return Derivation(lambda a: a, (first,), f"{first.text} in Table III")


# by (paper, metric), or by (paper, where) for a table that repeats another
RULES: dict[tuple[str, str], Callable[[Claim, Book], Derivation | None]] = {
    ("fedlga", "seconds_to_target"): _seconds_to_target,
    ("fedlga", "fedlga_round_speedup_over_method"): _speedup,
    ("fedlga", "fedlga_best_accuracy_gain_over_method"): _gain_over_fedavg,
    ("fedlga", "round_reduction"): _fewer_rounds_with_more_devices,
    ("fed2a", "unit_cost"): _unit_cost,
    ("fed2a", "upload_to_target"): _upload_to_target,
    ("fed2a", "upload_total"): _upload_total,
    ("fed2a", "accuracy_gain"): _against_best_baseline(more, "final_accuracy"),
    ("fed2a", "round_reduction"): _against_best_baseline(fewer, "rounds_to_target"),
    ("fed2a", "upload_reduction"): _against_best_baseline(fewer, "upload_to_target"),
    ("fed2a", "upload_ratio"): _upload_ratio,
    ("fedlc", "time_reduction"): _time_reduction,
    ("fedlc", "time_reduction_at_least"): _time_reduction,
    ("fedagg", "Table V"): _repeated,
}

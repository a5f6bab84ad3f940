"""python -m leaderboards simulate: how often the rules err on claims whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.output.tables import aligned
from leaderboards.judge import UNCLEAR, agreement
from leaderboards.verdict import CONTRADICTED, REPRODUCED, decide

CLAIMED, MARGIN = 100.0, 10.0
SEEDS = (3, 5, 10, 20)
SPREADS = (0.02, 0.3, 1.0, 3.0)  # standard deviations over seeds, in margins
FALSE, TRUE = "as far off as the margin allows, or further", "within the margin, its edge included"
EDGE = "just at the margin, with little noise: the hardest case"
ROUNDS, EITHER = "rounds", "final or best"
SINGLE = "a single run, as the paper may have printed"


@dataclass(frozen=True)
class Kind:
    """Claims that are alike: how far what is printed lies from what our runs have in the mean, in margins."""

    truth: str
    offsets: tuple[float, ...]
    numbers: str = "accuracies"  # or rounds to a target, whole and skewed; or accuracies of which either may be meant
    spreads: tuple[float, ...] = SPREADS


KINDS = (
    Kind(FALSE, (1.0, 1.0, 1.0, 1.2, 2.0)),
    Kind(FALSE, (1.0, 1.0, 1.0, 1.2, 2.0), ROUNDS),
    Kind(EDGE, (1.0,), spreads=(0.02, 0.1)),
    Kind(EDGE, (1.0,), EITHER, spreads=(0.02, 0.1)),
    Kind(TRUE, (0.0, 0.5, 1.0, 1.0, 1.0)),
    Kind(TRUE, (0.0, 0.5, 1.0, 1.0, 1.0), ROUNDS),
    Kind(SINGLE, (0.0,)),
)


def simulate(claims: int, seed: int = 0) -> str:
    """A table: of so many claims of each kind, how many were called reproduced or contradicted wrongly."""
    rng = np.random.default_rng(seed)
    rows = [["what is printed is", "numbers", "claims", "verdict", "wrongly", "share", "at most"]]
    for kind in KINDS:
        found = [_verdict(kind, *case, rng) for case in _cases(kind, claims, rng)]
        wrong = REPRODUCED if kind.truth in (FALSE, EDGE) else CONTRADICTED
        count = found.count(wrong)
        share, bound = count / len(found), upper(count, len(found))
        rows.append([kind.truth, kind.numbers, str(len(found)), wrong, str(count), f"{share:.2%}", f"{bound:.2%}"])
    return "\n".join(aligned(rows))


def upper(count: int, total: int) -> float:
    """One-sided 95 % bound of a share (Clopper and Pearson)."""
    from scipy.stats import beta

    return float(beta.ppf(0.95, count + 1, total - count)) if count < total else 1.0


def _cases(kind: Kind, count: int, rng: np.random.Generator) -> Iterator[tuple[int, float, float]]:
    """Seeds, standard deviation and mean of each claim's runs."""
    for _ in range(count):
        away = float(rng.choice(kind.offsets) * rng.choice((-1, 1)))
        yield int(rng.choice(SEEDS)), float(rng.choice(kind.spreads)) * MARGIN, CLAIMED + away * MARGIN


def _verdict(kind: Kind, seeds: int, spread: float, mean: float, rng: np.random.Generator) -> str:
    """Nothing but the number speaks: no rival is printed, and there is one reading."""
    claimed = float(rng.normal(mean, spread)) if kind.truth == SINGLE else CLAIMED
    looks = 2 if kind.numbers == EITHER else 1
    found = [
        agreement(claimed, _runs(kind, seeds, spread, mean, rng), 0.0, MARGIN, last=math.inf, looks=looks)
        for _ in range(looks)
    ]
    best = next((one for one in found if one.agrees), found[0])
    return decide(best, None, UNCLEAR, decides=True, no_reading_agrees=True)


def _runs(kind: Kind, seeds: int, spread: float, mean: float, rng: np.random.Generator) -> list[float]:
    if kind.numbers != ROUNDS:
        return list(map(float, rng.normal(mean, spread, seeds)))
    spread = min(spread, MARGIN)
    return list(map(float, np.round(rng.gamma((mean / spread) ** 2, spread**2 / mean, seeds))))

"""Random exactly solvable federations and the algebra the derivations share. Nothing here uses torch or our kernel.

Client i has F_i(w) = w'A_i w/2 - b_i'w. One local step of any method in this folder is affine in (w, m, 1), so K steps
are the K-th power of one matrix: `end` uses that form, never a loop over steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.linalg import matrix_power

from bench.testing import quadratic

COHORTS = [[3, 0, 2, 2], [1, 4, 1, 0], [2, 3, 4, 0], [4, 4, 3, 1], [0, 1, 2, 4]]  # rounds 0, 1 and 3 draw one twice
STEPS = [[4, 2, 1, 3, 4], [2, 4, 3, 1, 1], [1, 3, 2, 3, 2], [3, 1, 4, 2, 4], [4, 4, 2, 4, 3]]  # round 2: nobody does 4


@dataclass(frozen=True)
class Problem:
    A: np.ndarray  # [N, P, P]
    b: np.ndarray  # [N, P]
    w0: np.ndarray  # [P]
    samples: np.ndarray  # [N]
    lr: float
    steps: np.ndarray  # [rounds, N]
    cohorts: list[list[int]] | None  # None: asynchronous

    @property
    def rounds(self) -> int:
        return len(self.steps)

    @property
    def clients(self) -> int:
        return len(self.b)

    def run(self, algo: Any, **keys: Any) -> Any:
        arguments = {"w0": self.w0, "lr": self.lr, "rounds": self.rounds, "samples": self.samples, "steps": self.steps}
        return quadratic(algo, self.A, self.b, cohorts=self.cohorts, **(arguments | keys))

    def end(self, i: int, start: np.ndarray, steps: int, **terms: Any) -> np.ndarray:
        return end(self.A[i], self.b[i], start, steps, terms.pop("lr", self.lr), **terms)

    def gradient(self, i: int, w: np.ndarray) -> np.ndarray:
        return self.A[i] @ w - self.b[i]

    def weights(self, cohort: Sequence[int], weighting: str) -> dict[int, float]:
        """p_i proportional to count_i n_i (size) or count_i (uniform), over the distinct devices of the cohort."""
        raw = {i: k * (float(self.samples[i]) if weighting == "size" else 1.0) for i, k in Counter(cohort).items()}
        return {i: raw[i] / sum(raw.values()) for i in sorted(raw)}


def make(seed: int, clients: int = 5, size: int = 4, rounds: int | None = None) -> Problem:
    """Eigenvalues of A_i in [0.3, 3], optima far apart, samples from 3 to 60; `rounds` asks for an asynchronous one."""
    rng = np.random.default_rng(seed)
    bases = np.linalg.qr(rng.normal(size=(clients, size, size)))[0]
    A = np.einsum("npq,nq,nrq->npr", bases, rng.uniform(0.3, 3.0, (clients, size)), bases)
    b = rng.normal(size=(clients, size))
    w0 = rng.normal(size=size)
    samples = rng.permutation(np.arange(3, 61))[:clients]
    if rounds is None:
        return Problem(A, b, w0, samples, 0.15, np.array(STEPS), COHORTS)
    return Problem(A, b, w0, samples, 0.15, rng.integers(1, 5, (rounds, clients)), None)


def end(
    A: np.ndarray,
    b: np.ndarray,
    start: np.ndarray,
    steps: int,
    lr: float,
    *,
    momentum: float = 0.0,
    decay: float = 0.0,
    prox: float = 0.0,
    drift: np.ndarray | float = 0.0,
) -> np.ndarray:
    """K steps of  m <- mu m + (A + decay) w - b,  w <- w - lr (m + prox (w - start) + drift)  from m = 0, w = start.

    With z = (w, m, 1) a step is z <- M z; the answer is the w-part of M^K (start, 0, 1).
    """
    size = len(b)
    eye, M = np.eye(size), np.zeros((2 * size + 1, 2 * size + 1))
    new_m = np.hstack([A + decay * eye, momentum * eye, -b[:, None]])
    constant = np.broadcast_to(np.asarray(drift, dtype=float), (size,)) - prox * start
    M[:size] = np.hstack([(1 - lr * prox) * eye, 0 * eye, -lr * constant[:, None]]) - lr * new_m
    M[size:-1] = new_m
    M[-1, -1] = 1.0
    return (matrix_power(M, int(steps)) @ np.concatenate([start, np.zeros(size), [1.0]]))[:size]


def arrivals(seconds: np.ndarray, clients: int, rounds: int, buffer: int = 1) -> list[list[tuple[int, int]]]:
    """Per aggregation the (device, version it downloaded) pairs: all start at 0 with version 0; the earliest finish is
    next, device order among equals; the `buffer`-th upload aggregates and its contributors restart that instant."""
    seconds = np.broadcast_to(np.asarray(seconds, dtype=float), (rounds, clients))
    busy = {i: (seconds[0, i], 0) for i in range(clients)}
    waiting: list[tuple[int, int]] = []
    done: list[list[tuple[int, int]]] = []
    while len(done) < rounds:
        now, i = min((finish, i) for i, (finish, _) in busy.items())
        waiting.append((i, busy.pop(i)[1]))
        if len(waiting) == buffer:
            done.append(sorted(waiting))
            if len(done) < rounds:
                busy |= {j: (now + seconds[len(done), j], len(done)) for j, _ in waiting}
            waiting = []
    return done


def agree(got: Any, expected: Any, tolerance: float = 1e-9) -> None:
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.dtype == np.float64
    assert np.abs(expected).max() < 100, "the derivation itself diverges: the comparison would mean nothing"
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)

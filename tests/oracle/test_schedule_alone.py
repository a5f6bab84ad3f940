"""What a schedule and its weights do to progress, without any learning: derived by a plain simulation of arrivals."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np
import pytest

from bench.testing import sequential_steps

N, K, R, SECONDS = 30, 6, 120, (3.0, 30.0)
ALONE = {"algo.D": 10, "algo.rce": False}
SERVER = {"concurrency": K, "buffer": K, "aggregation": "cached"}
WEIGHTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": lambda stale: np.ones_like(stale),
    "inv": lambda stale: 1 / (stale + 1),
    "exp": lambda stale: (np.e / 2) ** -stale,
    "log": lambda stale: 1 / (np.log(stale + 1) + 1),
}


def steps(algo: str, **keys: object) -> np.ndarray:
    return sequential_steps(algo, clients=N, cohort=K, rounds=R, seconds=SECONDS, **keys)


def asynchronous(tvw: str) -> np.ndarray:
    """All N at work; the K that arrive first are averaged and begin again from the mean."""
    seconds = np.random.default_rng(0).uniform(*SECONDS, (R, N))
    queue = [(seconds[0, i], i, 0) for i in range(N)]
    heapq.heapify(queue)
    worth = [0.0]
    for t in range(R):
        arrived = [heapq.heappop(queue) for _ in range(K)]
        weight = WEIGHTS[tvw](np.array([t - version for _, _, version in arrived], dtype=float))
        worth.append(float(weight @ [worth[version] + 1 for *_, version in arrived] / weight.sum()))
        now = arrived[-1][0]
        for _, i, _ in arrived:
            heapq.heappush(queue, (now + seconds[min(t + 1, R - 1), i], i, t + 1))
    return np.array(worth)


def test_a_synchronous_mean_of_fresh_models_gains_one_a_round() -> None:
    np.testing.assert_allclose(steps("fedavg"), np.arange(R + 1), rtol=1e-12)


@pytest.mark.parametrize("tvw", WEIGHTS)
def test_stale_models_gain_less_as_the_simulation_of_arrivals_has_it(tvw: str) -> None:
    found = steps("fed2a", **ALONE, **{"algo.tvw": tvw})
    np.testing.assert_allclose(found, asynchronous(tvw), rtol=1e-9)
    assert 3.5 < R / found[-1] < 5.2  # the mean staleness is N / K - 1 = 4, and weights favour the fresh


def stored(tvw: str, cohorts: list[list[int]]) -> np.ndarray:
    """K of N begin from the mean and replace what is stored of them; the mean is over all N."""
    models, versions, worth = np.zeros(N), np.zeros(N), [0.0]
    for t, cohort in enumerate(cohorts):
        models[cohort], versions[cohort] = worth[t] + 1, t
        weight = WEIGHTS[tvw](t - versions)
        worth.append(float(weight @ models / weight.sum()))
    return np.array(worth)


@pytest.mark.parametrize("tvw", WEIGHTS)
def test_stored_models_make_a_handicap_that_time_weights_repair(tvw: str) -> None:
    rng = np.random.default_rng(1)
    cohorts = [rng.choice(N, K, replace=False).tolist() for _ in range(R)]
    found = steps("fed2a", cohorts=cohorts, **ALONE, **SERVER, **{"algo.tvw": tvw})
    np.testing.assert_allclose(found, stored(tvw, cohorts), rtol=1e-9)
    plain = steps("fedavg", cohorts=cohorts, aggregation="cached")
    np.testing.assert_allclose(plain, stored("none", cohorts), rtol=1e-9)
    assert R / plain[-1] == pytest.approx(N / K, rel=0.1)
    assert (found[-1] / plain[-1] > 1.3) == (tvw != "none")

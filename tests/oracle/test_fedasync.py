"""FedAsync (Xie et al., 2019) on quadratics: a replay of the events in numpy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from .problem import Problem, agree, arrivals, make

DECAYS = {
    "const": lambda d, p, b: 1.0,
    "poly": lambda d, p, b: (d + 1.0) ** -p,
    "hinge": lambda d, p, b: 1.0 if d <= b else 1.0 / (p * (d - b) + 1.0),
}


def derive(
    q: Problem,
    seconds: np.ndarray,
    *,
    alpha: float = 0.6,
    staleness: str = "poly",
    p: float = 0.5,
    b: float = 4,
    mu: float = 0.005,
    **terms: float,
) -> tuple[np.ndarray, list[int]]:
    w, late = [q.w0], []
    for t, [(i, version)] in enumerate(arrivals(seconds, q.clients, q.rounds)):
        late.append(t - version)
        mix = alpha * DECAYS[staleness](t - version, p, b)
        end = q.end(i, w[version], q.steps[version, i], prox=mu, **terms)
        w.append((1 - mix) * w[t] + mix * end)
    return np.array(w), late


def compare(q: Problem, seconds: np.ndarray, **fields: Any) -> list[int]:
    expected, late = derive(q, seconds, **fields)
    trace = q.run("fedasync", seconds=seconds, **{f"algo.{name}": value for name, value in fields.items()})
    assert trace.w.shape == expected.shape
    agree(trace.w, expected)
    agree(trace.server["w"], expected[-1])
    return late


def uneven(seed: int, clients: int) -> np.ndarray:
    """One device several times slower than the rest, no two events at one instant."""
    seconds = np.random.default_rng(seed).uniform(0.5, 2.0, clients)
    seconds[seed % clients] *= 3
    return seconds


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mu", [0.0, 0.005, 0.5])
@pytest.mark.parametrize(
    "fields",
    [
        {"staleness": "const"},
        {"staleness": "poly", "p": 0.5},
        {"staleness": "poly", "p": 1.3, "alpha": 0.9},
        {"staleness": "hinge", "p": 0.5, "b": 4},
        {"staleness": "hinge", "p": 2.0, "b": 2, "alpha": 0.8},
    ],
    ids=str,
)
def test_devices_of_unequal_speed_follow_the_derivation(seed: int, mu: float, fields: dict[str, Any]) -> None:
    """Upload t = 0, 1, ... comes from the device i that finishes next: the model it made in steps[v, i] steps on
    F_i + (mu/2)|w - w_v|^2 from the version v it downloaded.  d = t - v;  a = alpha s(d);  w_{t+1} = (1-a) w_t + a w_i.
    s: const 1; poly (d+1)^-p; hinge 1 up to b, then 1/(p (d-b) + 1). The device starts again with version t + 1."""
    q = make(40 + seed, rounds=24)
    late = compare(q, uneven(40 + seed, q.clients), mu=mu, **fields)
    assert late[0] == 0 and max(late) > 6, "the hinge must be passed"


@pytest.mark.parametrize("seed", range(3))
def test_the_defaults_are_those_of_the_derivation(seed: int) -> None:
    """alpha = 0.6, poly with p = 0.5, mu = 0.005; hinge with b = 4."""
    q = make(43 + seed, rounds=24)
    seconds = uneven(43 + seed, q.clients)
    agree(q.run("fedasync", seconds=seconds).w, derive(q, seconds)[0])
    hinge = q.run("fedasync", seconds=seconds, **{"algo.staleness": "hinge"})
    agree(hinge.w, derive(q, seconds, staleness="hinge")[0])


@pytest.mark.parametrize("seed", range(3))
def test_a_dispatch_takes_the_seconds_of_the_version_it_downloads(seed: int) -> None:
    """seconds[v, i] is the time of the dispatch that downloads version v."""
    q = make(46 + seed, rounds=24)
    seconds = np.random.default_rng(46 + seed).uniform(0.2, 3.0, (q.rounds, q.clients))
    compare(q, seconds, staleness="hinge", b=2)


@pytest.mark.parametrize("seed", range(4))
def test_uploads_that_coincide_are_handled_in_device_order(seed: int) -> None:
    """Times are multiples of 1/4, exact in binary, so that uploads coincide: device order decides, each is aggregated
    before the next, and the model a device is sent is that of its own aggregation."""
    q = make(49 + seed, rounds=30)
    compare(q, np.random.default_rng(49 + seed).integers(1, 5, (q.rounds, q.clients)) / 4, mu=0.2)
    compare(q, np.array([1.0, 0.5, 0.25, 0.5, 1.5]), staleness="poly", p=1.0)


@pytest.mark.parametrize("seconds", [None, 1.0, 0.1])
def test_equal_devices_take_turns(seconds: float | None) -> None:
    """All finish together, in device order: upload t is from device t mod N, which downloaded version max(0, t+1-N),
    so d = min(t, N - 1)."""
    q = make(53, rounds=17)
    q = replace(q, steps=np.full_like(q.steps, 3))
    w = [q.w0]
    for t in range(q.rounds):
        version = max(0, t + 1 - q.clients)
        mix = 0.6 * (min(t, q.clients - 1) + 1) ** -0.5
        w.append((1 - mix) * w[t] + mix * q.end(t % q.clients, w[version], 3, prox=0.005))
    keys = {} if seconds is None else {"seconds": np.full(q.clients, seconds)}
    agree(q.run("fedasync", **keys).w, w)


def test_momentum_decay_and_weighting() -> None:
    """The buffer m starts at zero in each dispatch; with one upload per aggregation no weighting can matter."""
    q = make(54, rounds=20)
    seconds = uneven(54, q.clients)
    expected, _ = derive(q, seconds, mu=0.3, momentum=0.5, decay=0.1)
    for weighting in ("size", "uniform"):
        keys = {"momentum": 0.5, "weight_decay": 0.1, "weighting": weighting, "algo.mu": 0.3}
        agree(q.run("fedasync", seconds=seconds, **keys).w, expected)


def test_the_schedule_is_N_and_1() -> None:
    q = make(55, rounds=15)
    seconds = uneven(55, q.clients)
    own = q.run("fedasync", seconds=seconds)
    assert own.w.equal(q.run("fedasync", seconds=seconds, concurrency=q.clients, buffer=1).w)


@pytest.mark.parametrize("staleness", ["const", "poly", "hinge"])
def test_one_at_a_time_with_full_mixing_is_gradient_descent(staleness: str) -> None:
    """Concurrency 1: every upload is fresh, s(0) = 1; alpha = 1 replaces w by the device's model. All devices hold the
    same (A, b), so whoever is drawn, w_{t+1} = x + (I - lr A)^{K_t} (w_t - x), x = A^-1 b."""
    one = make(56, clients=1, rounds=9)
    q = replace(one, A=one.A.repeat(5, 0), b=one.b.repeat(5, 0), samples=np.arange(1, 6), steps=one.steps.repeat(5, 1))
    best = np.linalg.solve(one.A[0], one.b[0])
    shrink = np.eye(len(best)) - one.lr * one.A[0]
    done = np.concatenate([[0], one.steps[:, 0].cumsum()])
    expected = [best + np.linalg.matrix_power(shrink, k) @ (one.w0 - best) for k in done]
    keys = {"algo.alpha": 1.0, "algo.staleness": staleness, "algo.mu": 0.0}
    agree(q.run("fedasync", concurrency=1, **keys).w, expected)
    agree(q.run("fedasync", concurrency=1, seconds=uneven(56, 5), **keys).w, expected)

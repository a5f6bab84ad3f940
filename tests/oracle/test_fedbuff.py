"""FedBuff (Nguyen et al., 2022) on quadratics: every K uploads make a version, and places are filled at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .problem import Problem, agree, make


def refilled(seconds: np.ndarray, clients: int, rounds: int, buffer: int) -> list[list[tuple[int, int]]]:
    """Per aggregation the (device, version it downloaded) pairs where all devices are at work: whoever uploads starts
    again that instant with the newest version, its own upload aggregated first if it was the buffer's last."""
    busy = {i: (seconds[0, i], 0) for i in range(clients)}
    waiting: list[tuple[int, int]] = []
    done: list[list[tuple[int, int]]] = []
    while len(done) < rounds:
        now, i = min((finish, i) for i, (finish, _) in busy.items())
        waiting.append((i, busy[i][1]))
        if len(waiting) == buffer:
            done.append(waiting)
            waiting = []
        version = min(len(done), rounds - 1)
        busy[i] = (now + seconds[version, i], len(done))
    return done


def derive(q: Problem, seconds: np.ndarray, buffer: int, weighting: str = "size", eta_g: float = 1.0, p: float = 0.5):
    w = [q.w0]
    for t, batch in enumerate(refilled(seconds, q.clients, q.rounds, buffer)):
        share = [float(q.samples[i]) if weighting == "size" else 1.0 for i, _ in batch]
        moves = [q.end(i, w[v], q.steps[v, i]) - w[v] for i, v in batch]
        late = [(1 + t - v) ** -p for _, v in batch]
        w.append(w[t] + eta_g * sum(n * s * d for n, s, d in zip(share, late, moves, strict=True)) / sum(share))
    return np.array(w)


def times(q: Problem, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 4.0, (q.rounds, q.clients))


@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize("buffer", [1, 2, 4, 5, 8, 13])
def test_buffers_smaller_and_larger_than_the_devices_follow_the_derivation(buffer: int, weighting: str) -> None:
    """w <- w + eta_g sum_k p_k (1 + tau_k)^-1/2 delta_k over the K uploads of a buffer, tau_k the versions made since
    the download; a device may be in one buffer several times."""
    q = make(300 + buffer, rounds=16)
    seconds = times(q, buffer)
    trace = q.run("fedbuff", seconds=seconds, weighting=weighting, **{"algo.K": buffer, "algo.eta_g": 0.7})
    agree(trace.w, derive(q, seconds, buffer, weighting, eta_g=0.7))
    assert buffer < 8 or any(len({i for i, _ in b}) < len(b) for b in refilled(seconds, q.clients, q.rounds, buffer))


@pytest.mark.parametrize("p", [0.0, 0.5, 2.0])
def test_the_weight_of_staleness_follows_the_derivation(p: float) -> None:
    q = make(311, rounds=16)
    seconds = times(q, 1)
    agree(q.run("fedbuff", seconds=seconds, **{"algo.K": 3, "algo.p": p}).w, derive(q, seconds, 3, p=p))


def test_any_method_can_be_refilled_and_what_waits_for_the_aggregation_differs() -> None:
    """refill=at_once is a key of the run: CE-AFL's mean of updates by FedBuff's schedule is FedBuff with p = 0."""
    q = make(312, rounds=16)
    seconds = times(q, 2)
    keys: dict[str, Any] = {"seconds": seconds, "concurrency": q.clients, "buffer": 3}
    at_once = q.run("ce_afl", refill="at_once", **keys)
    agree(at_once.w, derive(q, seconds, 3, p=0.0))
    assert not np.allclose(at_once.w, q.run("ce_afl", **keys).w)


def test_with_a_buffer_of_one_it_does_not_matter_when_places_are_filled() -> None:
    q = make(313, rounds=16)
    keys: dict[str, Any] = {"seconds": times(q, 3)}
    assert q.run("fedasync", refill="at_once", **keys).w.equal(q.run("fedasync", **keys).w)

"""FedLC and its variants on quadratics: what a run was seen to do, compared with the replay in fedlc_replay.py.

A spy that inherits from the method notes what each job is started with and what the server holds after each upload.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from algorithms.base import Algorithm
from algorithms.fedlc import FedLC
from algorithms.fedlc_variants import SC_FedLC
from bench.seeding import stream

from .fedlc_replay import Replay, replay
from .problem import Problem, agree, make


@dataclass
class Seen:
    senders: int
    mail: np.ndarray
    rate: float
    scale: float


def spy(
    method: type[Algorithm], **fields: Any
) -> tuple[Algorithm, dict[tuple[int, int], Seen], list[dict[str, np.ndarray]]]:
    """The method, what each (device, version) started with, and the server's state after each upload."""
    started: dict[tuple[int, int], Seen] = {}
    states: list[dict[str, np.ndarray]] = []

    def local(self, jobs, w, epoch, fed):
        rule = method.local(self, jobs, w, epoch, fed)
        K, P = w.shape
        mail = torch.zeros(K, P).double() if jobs.mail is None else jobs.mail
        senders = torch.zeros(K) if jobs.senders is None else jobs.senders
        rate = torch.full((K,), fed.lr).double() if rule.lr is None else rule.lr
        scale = torch.as_tensor(rule.scale).expand(K)
        for k in range(K):
            key = int(jobs.client[k]), int(jobs.version[k])
            now = Seen(int(senders[k]), mail[k].numpy().copy(), float(rate[k]), float(scale[k]))
            assert np.isclose(started.setdefault(key, now).rate, now.rate, rtol=1e-15), "one rate a dispatch"
        return rule

    def aggregate(self, server, updates, fed):
        after = method.aggregate(self, server, updates, fed)
        states.append({name: value.clone().numpy() for name, value in after.items()})
        return after

    return type("Spy", (method,), {"local": local, "aggregate": aggregate})(**fields), started, states


def compare(
    q: Problem, seconds: Any, method: type[Algorithm] = FedLC, *, weighting: str = "size", **fields: Any
) -> Replay:
    terms = {name: fields.pop(name) for name in ("momentum", "decay") if name in fields}
    own, gamma = dict(fields), None
    listing, whole = own.pop("localcol_k", "listing") == "listing", own.pop("eta_of", "step") == "dispatch"
    if own.pop("localcol_order", "index") == "links":
        gamma = links(q.clients)
    readings = {"listing": listing, "gamma": gamma, "per_dispatch": whole}
    log = replay(q, seconds, **own, **readings, compensated=method is SC_FedLC, **terms)
    algo, started, states = spy(method, **fields)
    keys = {{"decay": "weight_decay"}.get(name, name): value for name, value in terms.items()}
    trace = q.run(algo, seconds=seconds, weighting=weighting, devices={"peer": PEER}, **keys)
    for job in log.jobs:
        seen = started[job.device, job.version]
        assert seen.senders == len(job.read), (job.device, job.version)
        agree(seen.mail, job.mail)
        agree(seen.rate, job.rate)
        agree(seen.scale, 1 / (len(job.read) + 1), 1e-15)
    assert len(states) == q.rounds
    for t, state in enumerate(states):
        agree(state["w"], log.w[t + 1])
        assert state["M"].shape == log.M[t].shape and np.array_equal(state["M"], log.M[t]), t
        for name, values in (("l", log.norms[t]), ("beta", log.beta[t])):
            agree(np.where(np.isnan(values), 0.0, state[name]), np.nan_to_num(values))
        if method is not SC_FedLC:
            agree(state["eta"], log.eta[t])
    agree(trace.w, log.w)
    agree(trace.server["w"], log.w[-1])
    row = trace.rows[-1]
    agree(row["rate_mean"], np.mean([job.rate for job in log.jobs]))
    assert row["demands_mean"] == pytest.approx(log.M[-1].sum() / q.clients, rel=1e-6)
    assert (row["clamped_low"], row["clamped_high"]) == (log.low, log.high)
    return log


PEER = [0.1, 10.0]


def links(clients: int, seed: int = 0) -> np.ndarray:
    """gamma_ij "ranging randomly from 0.1 to 10" (Sec. 5.1), log-uniform, the same both ways."""
    gamma = np.ones((clients, clients))
    for i in range(clients):
        for j in range(i):
            gamma[i, j] = gamma[j, i] = 10 ** (2 * stream(seed, "peers", j, i).random() - 1)
    return gamma


def gentle(seed: int, clients: int, rounds: int, *, steps: int | None = None, pull: float = 5.0) -> Problem:
    """Flat enough for rates of 1.5, optima far enough apart that Theorem 1's rate often lies inside the clamps."""
    q = make(seed, clients=clients, rounds=rounds)
    uneven = np.array([1.0, 0.2, 2.0, 0.5, 3.0, 0.3, 1.5])[:clients, None]  # norms of the gradients far apart
    q = replace(q, A=0.3 * q.A, b=pull * uneven * q.b)
    return q if steps is None else replace(q, steps=np.full_like(q.steps, steps))

"""FedLC (Xu et al., 2023) on quadratics: every event replayed in numpy, from Algs. 1 and 2, not from our code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .problem import Problem


def localcol(
    i: int, norms: np.ndarray, compute: float, load: np.ndarray, link: np.ndarray, *, listing: bool = True
) -> set[int]:
    """Alg. 1, l. 24-37, Eqs. 40, 42 written out; k is raised only after a choice (listing), or is |{i} + S + {j}|."""
    N, S, k = len(norms), set(), 1
    bar = (N * norms[i] / norms.sum()) ** 2 / (N * norms[i] ** 2 / (norms**2).sum())
    for j in range(N):
        if j == i or not k < compute or not load[j] < link[j]:
            continue
        group = sorted({i, j} | S)
        divisor = k if listing else len(group)
        eps = N * sum(norms[h] for h in group) / (divisor * norms.sum())
        xi_ = N * sum(norms[h] ** 2 for h in group) / (divisor * (norms**2).sum())
        if eps**2 / xi_ > bar:
            S.add(j)
            k += 1
    return S


@dataclass
class Job:
    device: int
    version: int
    finish: float
    to: list[int]  # the column of M it was sent
    read: list[int]  # senders, in order
    mail: np.ndarray
    rate: float
    end: np.ndarray
    gradient: np.ndarray  # mean of its own along the path
    beta: float | None  # None: first dispatch; nan: the same model twice


@dataclass
class Replay:
    jobs: list[Job]  # by upload
    times: list[float]
    w: np.ndarray
    M: list[np.ndarray]  # after each upload, as the rest
    eta: list[np.ndarray]
    norms: list[np.ndarray]  # l; nan: not known
    beta: list[np.ndarray]
    low: int = 0  # rates clamped
    high: int = 0
    free: int = 0  # rates inside
    lost: int = 0  # gradients replaced by a later one of the same sender before they were read
    sent: int = 0  # gradients mailed


def replay(
    q: Problem,
    seconds: Any,
    *,
    compute_budget: float = 5,
    link_budget: float = 5,
    eta_min: float = 0.1,
    eta_max: float = 10.0,
    listing: bool = True,
    compensated: bool = False,
    **terms: float,
) -> Replay:
    """At each instant: those who finish mail their gradient to their column of M; then, in device order, each upload:
    w += (d_i/D) (w_i - received); from the second one on l_i, beta_i; once all are known row i = LOCALCOL(i),
    eta_i = eps D / (d_i mean(beta) xi) of the new row, clamped to [eta_min, eta_max] lr; device i is sent w, eta_i and
    M[:, i] as they are then. At last they start: each takes its inbox, r gradients with sum s, and steps
    w <- w - eta (grad F_i(w) + s) / (r + 1) from the model it was sent."""
    N, D = q.clients, q.samples.sum()
    clock = np.broadcast_to(np.asarray(seconds, dtype=float), (q.rounds, N))
    w, M, eta = [q.w0], np.zeros((N, N), bool), np.full(N, q.lr)
    norms, beta = np.full(N, np.nan), np.full(N, np.nan)
    inbox: list[dict[int, np.ndarray]] = [{} for _ in range(N)]
    previous: dict[int, np.ndarray] = {}
    arrived = np.zeros(N)
    log = Replay([], [], q.w0, [], [], [], [])

    def loss(i: int, x: np.ndarray) -> float:
        return float(x @ q.A[i] @ x / 2 - q.b[i] @ x)

    def start(i: int, now: float, version: int, rate: float, to: list[int]) -> Job:
        read, inbox[i] = inbox[i], {}
        mail = sum(read.values(), np.zeros_like(q.w0))
        received, K, slope = w[version], int(q.steps[version, i]), None
        path = [q.end(i, received, k, lr=rate / (len(read) + 1), drift=mail, **terms) for k in range(K + 1)]
        if i in previous:
            gap = np.linalg.norm(received - previous[i])
            slope = abs(loss(i, received) - loss(i, previous[i])) / gap if gap > 0 else np.nan
        previous[i] = received
        gradient = np.mean([q.gradient(i, x) for x in path[:-1]], axis=0)
        return Job(i, version, now + clock[version, i], to, sorted(read), mail, rate, path[-1], gradient, slope)

    busy = {i: start(i, 0.0, 0, q.lr, []) for i in range(N)}
    while len(log.jobs) < q.rounds:
        now = min(job.finish for job in busy.values())
        done = [busy.pop(i) for i in sorted(busy) if busy[i].finish == now]
        for job in done:
            for j in job.to:
                log.sent += 1
                log.lost += job.device in inbox[j]
                inbox[j][job.device] = job.gradient
        restarts = []
        for job in done[: q.rounds - len(log.jobs)]:
            i = job.device
            w.append(w[-1] - q.samples[i] / D * (w[job.version] - job.end))  # Eq. 4
            arrived[i] += 1
            if job.beta is not None:
                norms[i] = np.linalg.norm(job.gradient)
                beta[i] = beta[i] if np.isnan(job.beta) else job.beta
                if not np.isnan(norms).any() and not np.isnan(beta).any():
                    load = np.delete(M, i, axis=0).sum(axis=0)
                    R = localcol(i, norms, compute_budget, load, np.full(N, link_budget), listing=listing)
                    M[i] = [j in R for j in range(N)]
                    group, k = [i, *R], len(R) + 1
                    eps = N * norms[group].sum() / (k * norms.sum())
                    x = N * (norms[group] ** 2).sum() / (k * (norms**2).sum())
                    raw = eps * D / (q.samples[i] * beta.mean() * x) / q.lr
                    log.low += raw < eta_min
                    log.high += raw > eta_max
                    log.free += eta_min < raw < eta_max
                    eta[i] = q.lr * min(max(raw, eta_min), eta_max)
            share = arrived[i] / arrived.sum()
            rate = eta[i] / (N * share) if compensated else eta[i]
            restarts.append((i, len(w) - 1, rate, list(np.flatnonzero(M[:, i]))))
            log.jobs.append(job)
            log.times.append(now)
            for history, value in zip((log.M, log.eta, log.norms, log.beta), (M, eta, norms, beta), strict=True):
                history.append(value.copy())
        if len(log.jobs) < q.rounds:
            busy |= {i: start(i, now, version, rate, to) for i, version, rate, to in restarts}
    log.w = np.array(w)
    return log

"""FedLC (Xu et al., 2023) on quadratics: every event replayed in numpy, from Algs. 1 and 2, not from our code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .problem import Problem


def localcol(
    i: int,
    norms: np.ndarray,
    compute: float,
    load: np.ndarray,
    link: np.ndarray,
    *,
    listing: bool = True,
    gamma: np.ndarray | None = None,
) -> set[int]:
    """Alg. 1, l. 24-37, Eqs. 40, 42 written out; k is raised only after a choice (listing), or is |{i} + S + {j}|.
    gamma [N, N]: those with gamma_ij > 1 are "encouraged to collaborate" (Sec. 5.1), so they are asked first."""
    N, S, k = len(norms), set(), 1
    bar = (N * norms[i] / norms.sum()) ** 2 / (N * norms[i] ** 2 / (norms**2).sum())
    near = [j for j in range(N) if gamma is not None and gamma[i, j] > 1]
    for j in near + [j for j in range(N) if j not in near]:
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
    eta_min: float | None = 0.1,
    eta_max: float | None = 10.0,
    listing: bool = True,
    gamma: np.ndarray | None = None,
    per_dispatch: bool = False,
    compensated: bool = False,
    **terms: float,
) -> Replay:
    """At each instant: those who finish mail their gradient to their column of M; then, in device order, each upload:
    w += (d_i/D) (w_i - received); from the second one on l_i, beta_i; once all are known row i = LOCALCOL(i),
    eta_i = eps D / (d_i mean(beta) xi) of the new row, clamped to [eta_min, eta_max] lr (None: at that end not); device
    i is sent w, eta_i and M[:, i] as they are then. At last they start: each takes its inbox, r gradients with sum s,
    and steps w <- w - eta (grad F_i(w) + s) / (r + 1) from the model it was sent, where K steps with `per_dispatch`
    take eta / K each, so that w_i = w - eta (the mean of the K aggregated gradients), Eq. 3 as a whole."""
    clock = np.broadcast_to(np.asarray(seconds, dtype=float), (q.rounds, q.clients))
    devices = Devices(q, clock, terms, [{} for _ in range(q.clients)], per_dispatch)
    server = Server(q, compute_budget, link_budget, (eta_min, eta_max), listing, gamma)
    w, arrived, log = [q.w0], np.zeros(q.clients), server.log
    busy = {i: devices.start(i, 0.0, 0, q.w0, q.lr, []) for i in range(q.clients)}
    while len(log.jobs) < q.rounds:
        now = min(job.finish for job in busy.values())
        done = [busy.pop(i) for i in sorted(busy) if busy[i].finish == now]
        for job in done:
            devices.post(job, log)
        restarts = []
        for job in done[: q.rounds - len(log.jobs)]:
            i = job.device
            w.append(w[-1] - q.samples[i] / q.samples.sum() * (w[job.version] - job.end))  # Eq. 4
            arrived[i] += 1
            server.learn(job)
            share = arrived[i] / arrived.sum()
            rate = server.eta[i] / (q.clients * share) if compensated else server.eta[i]
            restarts.append((i, len(w) - 1, rate, list(np.flatnonzero(server.M[:, i]))))
            server.note(job, now)
        if len(log.jobs) < q.rounds:
            busy |= {i: devices.start(i, now, version, w[version], rate, to) for i, version, rate, to in restarts}
    log.w = np.array(w)
    return log


@dataclass
class Devices:
    q: Problem
    clock: np.ndarray  # [rounds, N]
    terms: dict[str, float]
    inbox: list[dict[int, np.ndarray]]
    per_dispatch: bool
    previous: dict[int, np.ndarray] = field(default_factory=dict)  # the model each was sent before

    def post(self, job: Job, log: Replay) -> None:
        for j in job.to:
            log.sent += 1
            log.lost += job.device in self.inbox[j]
            self.inbox[j][job.device] = job.gradient

    def start(self, i: int, now: float, version: int, received: np.ndarray, rate: float, to: list[int]) -> Job:
        q, read, slope = self.q, self.inbox[i], None
        self.inbox[i] = {}
        mail = sum(read.values(), np.zeros_like(q.w0))
        steps = range(int(q.steps[version, i]) + 1)
        rate = rate / steps[-1] if self.per_dispatch else rate
        path = [q.end(i, received, k, lr=rate / (len(read) + 1), drift=mail, **self.terms) for k in steps]
        if i in self.previous:
            gap = np.linalg.norm(received - self.previous[i])
            slope = abs(self.loss(i, received) - self.loss(i, self.previous[i])) / gap if gap > 0 else np.nan
        self.previous[i] = received
        gradient = np.mean([q.gradient(i, x) for x in path[:-1]], axis=0)
        return Job(i, version, now + self.clock[version, i], to, sorted(read), mail, rate, path[-1], gradient, slope)

    def loss(self, i: int, x: np.ndarray) -> float:
        return float(x @ self.q.A[i] @ x / 2 - self.q.b[i] @ x)


class Server:
    def __init__(
        self,
        q: Problem,
        compute: float,
        link: float,
        clamp: tuple[float | None, float | None],
        listing: bool,
        gamma: np.ndarray | None,
    ) -> None:
        N = q.clients
        self.q, self.compute, self.link, self.listing, self.gamma = q, compute, np.full(N, link), listing, gamma
        self.clamp = -np.inf if clamp[0] is None else clamp[0], np.inf if clamp[1] is None else clamp[1]
        self.M, self.eta = np.zeros((N, N), bool), np.full(N, q.lr)
        self.norms, self.beta = np.full(N, np.nan), np.full(N, np.nan)
        self.log = Replay([], [], q.w0, [], [], [], [])

    def learn(self, job: Job) -> None:
        """What an upload tells of its device, and, once all are known, its row of M and its rate."""
        i = job.device
        if job.beta is None:
            return
        self.norms[i] = np.linalg.norm(job.gradient)
        self.beta[i] = self.beta[i] if np.isnan(job.beta) else job.beta
        if np.isnan(self.norms).any() or np.isnan(self.beta).any():
            return
        load = np.delete(self.M, i, axis=0).sum(axis=0)
        R = localcol(i, self.norms, self.compute, load, self.link, listing=self.listing, gamma=self.gamma)
        self.M[i] = [j in R for j in range(self.q.clients)]
        raw, (low, high) = self.theorem1([i, *R]), self.clamp
        self.log.low += raw < low
        self.log.high += raw > high
        self.log.free += low < raw < high
        self.eta[i] = self.q.lr * min(max(raw, low), high)

    def theorem1(self, group: list[int]) -> float:
        """The rate of the group's first, over lr."""
        q, norms, share = self.q, self.norms, self.q.clients / len(group)
        eps = share * norms[group].sum() / norms.sum()
        xi = share * (norms[group] ** 2).sum() / (norms**2).sum()
        return float(eps * q.samples.sum() / (q.samples[group[0]] * self.beta.mean() * xi) / q.lr)

    def note(self, job: Job, now: float) -> None:
        self.log.jobs.append(job)
        self.log.times.append(now)
        self.log.M.append(self.M.copy())
        self.log.eta.append(self.eta.copy())
        self.log.norms.append(self.norms.copy())
        self.log.beta.append(self.beta.copy())

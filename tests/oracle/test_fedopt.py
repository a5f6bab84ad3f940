"""FedAdam, FedYogi and FedAdagrad (Reddi et al., 2021) on quadratics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .problem import Problem, agree, arrivals, make

ALGOS = ["fedadam", "fedyogi", "fedadagrad"]


class Server:
    """m <- b1 m + (1 - b1) d;  v by the method, v_0 = tau^2;  w += eta_s m / (sqrt(v) + tau);  no bias correction."""

    def __init__(
        self,
        algo: str,
        size: int,
        eta_s: float = 0.03,
        beta1: float | None = None,
        beta2: float = 0.99,
        tau: float = 1e-3,
    ) -> None:
        self.algo, self.eta_s, self.beta2, self.tau = algo, eta_s, beta2, tau
        self.beta1 = beta1 if beta1 is not None else (0.0 if algo == "fedadagrad" else 0.9)
        self.m, self.v, self.flips = np.zeros(size), np.full(size, tau**2), set[float]()

    def step(self, d: np.ndarray) -> np.ndarray:
        self.m = self.beta1 * self.m + (1 - self.beta1) * d
        square = d * d
        self.flips |= set(np.sign(self.v - square))
        self.v = {
            "fedadagrad": lambda: self.v + square,
            "fedyogi": lambda: np.where(
                self.v > square, self.v - (1 - self.beta2) * square, self.v + (1 - self.beta2) * square
            ),
            "fedadam": lambda: self.beta2 * self.v + (1 - self.beta2) * square,
        }[self.algo]()
        return self.eta_s * self.m / (self.v**0.5 + self.tau)


def derive(p: Problem, algo: str, weighting: str = "size", terms: dict[str, float] | None = None, **fields: Any):
    server, w = Server(algo, len(p.w0), **fields), [p.w0]
    for t, cohort in enumerate(p.cohorts or []):
        share = p.weights(cohort, weighting)
        d = sum(q * (p.end(i, w[t], p.steps[t, i], **(terms or {})) - w[t]) for i, q in share.items())
        w.append(w[t] + server.step(d))
    return np.array(w), server


def compare(trace: Any, expected: Any) -> None:
    w, server = expected
    agree(trace.w, w)
    agree(trace.server["w"], w[-1])
    agree(trace.server["m"], server.m)
    agree(trace.server["v"], server.v)


FIELDS = [
    {"eta_s": 0.1, "tau": 0.05},
    {"eta_s": 0.3, "beta1": 0.5, "tau": 0.3},
    {"beta1": 0.0, "eta_s": 1.0, "tau": 1.0},
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize("fields", FIELDS, ids=str)
@pytest.mark.parametrize("algo", ALGOS)
def test_plain_rounds_follow_the_derivation(algo: str, fields: dict[str, float], weighting: str, seed: int) -> None:
    """d = sum p_i delta_i;  m <- b1 m + (1-b1) d;  adam v <- b2 v + (1-b2) d^2; yogi v <- v - (1-b2) d^2 sign(v - d^2);
    adagrad v <- v + d^2;  w += eta_s m/(sqrt(v) + tau);  m_0 = 0, v_0 = tau^2 (Alg. 2). d is a mean of deltas: it
    counts a device as often as it was drawn, and so do m and v, which are made of nothing else."""
    p = make(150 + seed)
    keys = {f"algo.{name}": value for name, value in fields.items()}
    compare(p.run(algo, weighting=weighting, **keys), derive(p, algo, weighting, **fields))


@pytest.mark.parametrize("beta2", [0.5, 0.9, 0.999])
@pytest.mark.parametrize("algo", ["fedadam", "fedyogi"])
def test_beta2_follows_the_derivation(algo: str, beta2: float) -> None:
    p = make(152)
    compare(p.run(algo, **{"algo.beta2": beta2, "algo.tau": 0.1}), derive(p, algo, beta2=beta2, tau=0.1))


@pytest.mark.parametrize("algo", ALGOS)
def test_the_defaults_are_those_of_the_derivation(algo: str) -> None:
    """eta_s = 0.03, beta1 = 0.9 (adagrad 0), beta2 = 0.99, tau = 0.001, weighting = size."""
    p = make(153)
    compare(p.run(algo), derive(p, algo))


def test_yogi_meets_both_signs() -> None:
    """v > d^2 and v < d^2 both occur in what is compared, so that the sign is tested."""
    p = make(154)
    expected = derive(p, "fedyogi", tau=0.3, beta2=0.6)
    assert expected[1].flips == {-1.0, 1.0}
    compare(p.run("fedyogi", **{"algo.tau": 0.3, "algo.beta2": 0.6}), expected)


@pytest.mark.parametrize("algo", ALGOS)
def test_client_momentum_and_decay(algo: str) -> None:
    p = make(155)
    keys = {"momentum": 0.5, "weight_decay": 0.1, "algo.tau": 0.05}
    compare(p.run(algo, **keys), derive(p, algo, terms={"momentum": 0.5, "decay": 0.1}, tau=0.05))


def test_the_moments_are_their_unrolled_sums() -> None:
    """m_T = (1-b1) sum b1^{T-1-t} d_t;  adam v_T = b2^T tau^2 + (1-b2) sum b2^{T-1-t} d_t^2;  adagrad v_T = tau^2 +
    sum d_t^2, m_T = d_{T-1}; d_t recomputed from the models the run reports."""
    p = make(156)
    for algo, b1, b2, own in (("fedadam", 0.9, 0.99, 0.01), ("fedadagrad", 0.0, 1.0, 1.0)):
        trace = p.run(algo)
        d = []
        for w, cohort, steps in zip(trace.w.numpy(), p.cohorts or [], p.steps, strict=False):
            d.append(sum(q * (p.end(i, w, steps[i]) - w) for i, q in p.weights(cohort, "size").items()))
        back = np.arange(p.rounds)[::-1, None]
        agree(trace.server["m"], ((1 - b1) * np.float_power(b1, back) * d).sum(0))
        agree(trace.server["v"], b2**p.rounds * 1e-6 + own * (b2**back * np.square(d)).sum(0))


@pytest.mark.parametrize("algo", ALGOS)
def test_in_a_semi_asynchronous_schedule(algo: str) -> None:
    """Schedule (N, 2): d = sum p_i (w_i - w_{v_i}), v_i downloaded."""
    p = make(157, rounds=12)
    seconds = np.random.default_rng(157).uniform(0.5, 4.0, p.clients)
    w, server = [p.w0], Server(algo, len(p.w0), tau=0.1)
    for t, batch in enumerate(arrivals(seconds, p.clients, p.rounds, 2)):
        share = p.weights([i for i, _ in batch], "size")
        w.append(w[t] + server.step(sum(share[i] * (p.end(i, w[v], p.steps[v, i]) - w[v]) for i, v in batch)))
    keys = {"concurrency": p.clients, "buffer": 2, "seconds": seconds, "algo.tau": 0.1}
    compare(p.run(algo, **keys), (np.array(w), server))


def test_numbers_worked_out_by_hand_come_out() -> None:
    """F = w^2/2, lr = 1/2, one step, w = 4, tau = eta_s = 1, beta1 = beta2 = 1/2: d = -2, m = -1; v = 1/2 + 2 (adam),
    1 + 2 (yogi: 1 < 4); adagrad m = -1, v = 5."""
    p = Problem(np.ones((1, 1, 1)), np.zeros((1, 1)), np.array([4.0]), np.ones(1), 0.5, np.ones((1, 1), int), [[0]])
    for algo, v in (("fedadam", 2.5), ("fedyogi", 3.0), ("fedadagrad", 5.0)):
        beta2 = {} if algo == "fedadagrad" else {"algo.beta2": 0.5}
        trace = p.run(algo, **{"algo.tau": 1.0, "algo.eta_s": 1.0, "algo.beta1": 0.5}, **beta2)
        agree(trace.server["m"], [-1.0], 1e-14)
        agree(trace.server["v"], [v], 1e-14)
        agree(trace.w[1], [4 - 1 / (v**0.5 + 1)], 1e-14)

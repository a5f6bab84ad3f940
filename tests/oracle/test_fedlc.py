"""FedLC, SC-FedLC and FedLC-T (Xu et al., 2023) on quadratics, against the replay of their events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from algorithms.base import Algorithm
from algorithms.fedlc import FedLC
from algorithms.fedlc_variants import FedLC_T, SC_FedLC

from .fedlc_replay import replay
from .fedlc_seen import compare, gentle, links
from .problem import agree

# time, device, version it had downloaded, whose gradients it had read, row of M after its upload (None: not yet)
EVENTS: list[tuple[float, int, int, list[int], list[int] | None]] = [
    (1.0, 0, 0, [], None),
    (1.5, 1, 0, [], None),
    (2.0, 0, 1, [], None),  # l_0, beta_0 known
    (2.5, 2, 0, [], None),
    (3.0, 0, 3, [], None),
    (3.0, 1, 2, [], None),  # l_1, beta_1 known
    (4.0, 0, 5, [], None),
    (4.5, 1, 6, [], None),
    (5.0, 0, 7, [], None),  # sent version 9 and an empty column: device 2 comes a moment later
    (5.0, 2, 4, [], [0]),  # all are known: 2 demands from 0
    (6.0, 0, 9, [], [1]),  # sent column {2}
    (6.0, 1, 8, [], [0]),  # sent column {0}
    (7.0, 0, 11, [], [1]),  # mails to 2; sent column {1, 2}
    (7.5, 1, 12, [], [0]),  # mails to 0
    (7.5, 2, 10, [], [0]),
    (8.0, 0, 13, [], [1]),  # had started at 7.0, before 1's mail; mails to 1 and 2
    (9.0, 0, 16, [1], [1]),  # mails to 1 and 2 again, over its gradient of 8.0
    (9.0, 1, 14, [], [0]),  # mails to 0, which starts at 9.0 and reads it
    (10.0, 0, 17, [1], [1]),
    (10.0, 2, 15, [0], [0]),  # 0's of 7.0
    (10.5, 1, 18, [0], [0]),  # 0's of 9.0, sent in the instant it was read
    (11.0, 0, 19, [], [1]),  # 1's of 9.0 was used up: its buffer is cleared
    (12.0, 0, 22, [1], [1]),
    (12.0, 1, 21, [0], [0]),  # 0's of 10.0
]


@pytest.mark.parametrize("method", [FedLC, SC_FedLC, FedLC_T])
def test_three_devices_event_by_event(method: type[Algorithm]) -> None:
    """1, 1.5 and 2.5 s a dispatch, compute budget 2. With S empty the listing's test is (l_i + l_j)^2 > l_i^2 + l_j^2,
    always true: each row holds the first other device, nothing else. The table above was written by hand."""
    q = gentle(240, 3, len(EVENTS))
    log = compare(q, np.array([1.0, 1.5, 2.5]), method, compute_budget=2)
    for event, job, now, M in zip(EVENTS, log.jobs, log.times, log.M, strict=True):
        time, device, version, read, row = event
        assert (now, job.device, job.version, job.read) == (time, device, version, read)
        assert list(np.flatnonzero(M[device])) == (row or [])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("clients", [3, 4, 6])
def test_devices_of_unequal_speed_follow_the_derivation(clients: int, seed: int) -> None:
    q = gentle(241 + seed, clients, 14 * clients)
    seconds = np.random.default_rng(seed).uniform(0.5, 2.0, clients)
    seconds[seed] *= 3
    log = compare(q, seconds)
    assert log.free and log.lost, "rates inside the clamps, and gradients that a later one replaces"
    assert max(len(job.read) for job in log.jobs) > (clients > 3)


@pytest.mark.parametrize("method", [FedLC, SC_FedLC, FedLC_T])
@pytest.mark.parametrize("seed", range(3))
def test_ties_and_seconds_by_version(seed: int, method: type[Algorithm]) -> None:
    """Multiples of 1/4 s, by the version downloaded."""
    q = gentle(244 + seed, 5, 60)
    log = compare(q, np.random.default_rng(seed).integers(1, 6, (q.rounds, 5)) / 4, method)
    assert len(set(log.times)) < 40
    compare(q, np.array([0.5, 0.25, 0.75, 0.5, 1.0]), method)


def test_equal_devices_take_turns() -> None:
    q = gentle(247, 4, 40)
    log = compare(q, np.ones(4))
    assert [job.device for job in log.jobs] == list(range(4)) * 10


@pytest.mark.parametrize("budgets", [(1, 5), (2, 1), (3, 1), (3, 2), (5, 1), (2, 3), (19, 19)], ids=str)
def test_demands_keep_to_both_budgets(budgets: tuple[int, int]) -> None:
    """At most C/c - 1 others in a row; at most B/b rows demand from one device."""
    q = gentle(248, 6, 70)
    compute, link = budgets
    log = compare(q, np.array([1.0, 0.5, 0.75, 0.5, 1.25, 2.0]), compute_budget=compute, link_budget=link)
    assert max(M.sum(1).max() for M in log.M) <= compute - 1 and max(M.sum(0).max() for M in log.M) <= link
    assert log.M[-1].any() == (compute > 1)


def test_the_old_row_does_not_block_the_new_one() -> None:
    """Link budget 1: were row i's own old entries counted, i would have to give up at each upload what it had."""
    q = gentle(249, 3, 40)
    log = compare(q, np.array([1.0, 1.25, 2.0]), compute_budget=2, link_budget=1)
    rows = [tuple(np.flatnonzero(M[job.device])) for M, job in zip(log.M, log.jobs, strict=True) if job.device == 2]
    assert rows[-5:] == [(0,)] * 5


@pytest.mark.parametrize(("eta_min", "eta_max"), [(1e-6, 1e6), (1.0, 1.0), (0.5, 3.0), (4.0, 6.0)])
def test_rates_are_clamped_at_either_end(eta_min: float, eta_max: float) -> None:
    """One step a dispatch: |eta d_i/D g| is about eps/xi, so that even the unclamped rate stays finite."""
    q = gentle(250, 4, 50, steps=1)
    log = compare(q, np.array([1.0, 0.6, 1.7, 0.9]), eta_min=eta_min, eta_max=eta_max)
    assert (log.low + log.high == 0) == (eta_max == 1e6)


@pytest.mark.parametrize("method", [FedLC, SC_FedLC, FedLC_T])
def test_without_clamps_the_rate_is_theorem_1s(method: type[Algorithm]) -> None:
    """Alg. 1, l. 17 as it stands, with Eq. 3's single step: none of the rates is near the configured one."""
    q = gentle(266, 4, 60, steps=1)
    log = compare(q, np.array([1.0, 0.6, 1.7, 0.9]), method, eta_min=None, eta_max=None)
    assert log.low == log.high == 0 and max(job.rate for job in log.jobs) > 10 * q.lr
    above = compare(q, np.array([1.0, 0.6, 1.7, 0.9]), method, eta_min=4.0, eta_max=None)
    below = compare(q, np.array([1.0, 0.6, 1.7, 0.9]), method, eta_min=None, eta_max=4.0)
    assert above.low and not above.high and below.high and not below.low


@pytest.mark.parametrize("method", [FedLC, SC_FedLC, FedLC_T])
@pytest.mark.parametrize("clamps", [{}, {"eta_min": None, "eta_max": None}], ids=["clamped", "not"])
def test_a_dispatch_as_a_whole_steps_by_eta(clamps: dict[str, Any], method: type[Algorithm]) -> None:
    """Unequal numbers of steps: w_i - w = -eta (mean own gradient + r mailed ones) / (r + 1), so that Eq. 4 moves w by
    eta d_i/D times the aggregated gradient, whatever the steps."""
    q = gentle(267, 5, 60)
    assert len(set(q.steps.flat)) == 4
    log = compare(q, np.random.default_rng(267).uniform(0.5, 2.0, 5), method, eta_of="dispatch", **clamps)
    for job in log.jobs:
        eta, r = job.rate * q.steps[job.version, job.device], len(job.read)
        agree(job.end - log.w[job.version], -eta * (job.gradient + job.mail) / (r + 1))


@pytest.mark.parametrize("method", [FedLC, SC_FedLC, FedLC_T])
@pytest.mark.parametrize("budgets", [(2, 5), (3, 1), (4, 3)], ids=str)
def test_fast_links_first(budgets: tuple[int, int], method: type[Algorithm]) -> None:
    """Budgets that leave some out, so that the order decides who is taken."""
    q, (compute, link) = gentle(268, 7, 90), budgets
    seconds = np.random.default_rng(268).uniform(0.5, 2.0, 7)
    keys = {"compute_budget": compute, "link_budget": link}
    log = compare(q, seconds, method, localcol_order="links", **keys)
    by_index = replay(q, seconds, compensated=method is SC_FedLC, **keys)
    assert not np.array_equal(log.M[-1], by_index.M[-1])
    gamma = links(7)
    assert (gamma[log.M[-1]] > 1).mean() > (gamma[by_index.M[-1]] > 1).mean()


def test_without_links_of_their_own_devices_are_asked_by_index() -> None:
    """devices.peer=null: gamma = 1."""
    q = gentle(269, 5, 40)
    one, two = (q.run("fedlc", **{"algo.localcol_order": order}) for order in ("index", "links"))
    assert one.w.equal(two.w)


@pytest.mark.parametrize("seed", range(2))
def test_both_clamps_bind(seed: int) -> None:
    q = gentle(251 + seed, 5, 80, pull=8.0)
    log = compare(q, np.random.default_rng(seed).uniform(0.5, 2.0, 5), eta_min=3.0, eta_max=5.0)
    assert log.low and log.high and log.free


def test_the_defaults_are_those_of_the_derivation() -> None:
    """Budgets 5 and 5, clamps 0.1 and 10 times the configured rate, the listing's k, by the command line's name."""
    q = gentle(253, 7, 80)
    seconds = np.random.default_rng(253).uniform(0.5, 2.0, 7)
    for name, compensated in (("fedlc", False), ("fedlc_t", False), ("sc_fedlc", True)):
        log = replay(q, seconds, compensated=compensated)
        trace = q.run(name, seconds=seconds)
        agree(trace.w, log.w)
        assert np.array_equal(trace.server["M"].numpy().astype(bool), log.M[-1])
        agree(trace.server["l"], log.norms[-1])
        agree(trace.server["beta"], log.beta[-1])


@pytest.mark.parametrize("clients", [3, 5])
def test_the_compensated_rate_is_divided_by_the_share_of_uploads(clients: int) -> None:
    """eta_i / (N t_i / t) with t_i, t after the upload: from the first return on, outside the clamps; device i's mean
    share of the uploads makes the rates of a slow device large."""
    q = gentle(254, clients, 14 * clients)
    seconds = np.random.default_rng(254).uniform(1.0, 2.0, clients)
    seconds[1] /= 3
    log = compare(q, seconds, SC_FedLC, eta_max=2.0)
    first = {job.version: job for job in log.jobs if job.version}
    assert first[1].rate == pytest.approx(q.lr * 1 / clients), "t_i = t = 1"
    assert max(job.rate for job in log.jobs) > 2.0 * q.lr, "beyond the clamp"


def test_fedlc_t_without_loss_is_fedlc() -> None:
    q = gentle(255, 5, 60)
    seconds = np.random.default_rng(255).uniform(0.5, 2.0, 5)
    one, two = (q.run(name, seconds=seconds) for name in ("fedlc", "fedlc_t"))
    assert one.w.equal(two.w)
    assert one.server["M"].equal(two.server["M"]) and one.server["eta"].equal(two.server["eta"])


@pytest.mark.parametrize(("momentum", "decay"), [(0.5, 0.0), (0.0, 0.05), (0.4, 0.05)])
def test_momentum_and_decay_follow_the_derivation(momentum: float, decay: float) -> None:
    """m <- momentum m + g + decay w stands in for g in the step; what is mailed and measured is g itself."""
    q = gentle(256, 4, 40)
    compare(q, np.array([1.0, 0.6, 1.7, 0.9]), momentum=momentum, decay=decay, eta_max=3.0)


def test_weighting_does_not_matter() -> None:
    """Eq. 4 has d_i/D, whatever the key says."""
    compare(gentle(264, 4, 40), np.array([1.0, 0.6, 1.7, 0.9]), weighting="uniform")


def test_bytes_between_devices_are_those_of_the_mailed_gradients() -> None:
    """4 bytes a number, P = 4 numbers a gradient, one for each entry of the column at every finish."""
    q = gentle(265, 5, 60)
    seconds = np.random.default_rng(265).uniform(0.5, 2.0, 5)
    log = replay(q, seconds)
    assert q.run("fedlc", seconds=seconds).rows[-1]["bytes_peer"] == 16 * log.sent > 0


@pytest.mark.parametrize("fields", [{"compute_budget": 1}, {"link_budget": 0}, {"localcol_k": "eq40"}], ids=str)
def test_without_demands_and_rates_it_is_asynchronous_sgd(fields: dict[str, Any]) -> None:
    """w_{t+1} = w_t + (d_i/D) (w_i - w_v)."""
    q = gentle(257, 5, 40)
    seconds = np.array([1.0, 0.5, 0.75, 0.5, 1.25])
    log = compare(q, seconds, eta_min=1.0, eta_max=1.0, **fields)
    assert not any(M.any() for M in log.M)
    w = [q.w0]
    for job in log.jobs:
        delta = q.end(job.device, w[job.version], q.steps[job.version, job.device]) - w[job.version]
        w.append(w[-1] + q.samples[job.device] / q.samples.sum() * delta)
    np.testing.assert_allclose(log.w, w, atol=1e-12)


def test_eq40s_k_chooses_nobody_but_keeps_theorem_1() -> None:
    log = compare(gentle(258, 5, 50), np.array([1.0, 0.6, 0.75, 0.45, 1.25]), localcol_k="eq40")
    assert not any(M.any() for M in log.M) and log.free


def test_the_same_model_twice_keeps_beta() -> None:
    """Device 0 holds 1e-20 of the samples, so its upload leaves w as it was, bit for bit; being the fastest it receives
    the same model several times in a row: 0/0 in beta_0, which keeps its last value (at first: none)."""
    q = replace(gentle(259, 3, 60), samples=np.array([1, 10**18, 2 * 10**18]))
    q = replace(q, A=q.A / 3)  # device 0's rate is always at the upper clamp
    log = compare(q, np.array([0.25, 1.1, 1.9]))
    slopes = [job.beta for job in log.jobs if job.device == 0 and job.beta is not None]
    assert np.isnan(slopes[0]) and np.isnan(slopes).sum() > 5 and (~np.isnan(slopes)).sum() > 3


def test_a_beta_that_was_never_known_holds_the_demands_back() -> None:
    """As before, but device 0 is slow after its second dispatch: 1 and 2 have long reported everything by then."""
    q = replace(gentle(260, 3, 40), samples=np.array([1, 10**18, 2 * 10**18]))
    q = replace(q, A=q.A / 3)
    seconds = np.tile([12.3, 1.1, 1.9], (40, 1))
    seconds[:2, 0] = 0.25
    log = compare(q, seconds)
    reports = [t for t, job in enumerate(log.jobs) if job.device == 0 and job.beta is not None]
    assert np.isnan(log.jobs[reports[0]].beta) and reports[1] > 10
    assert not any(M.any() for M in log.M[: reports[1]]) and log.M[-1].any()

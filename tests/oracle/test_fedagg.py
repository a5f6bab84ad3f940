"""FedAgg (Yuan and Wang, arXiv 2303.15799) on quadratics, where one local epoch is one exact gradient step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from .problem import Problem, agree, make


def solve(w: np.ndarray, phi1: np.ndarray, phi2: np.ndarray, alpha: float) -> np.ndarray:
    """Eq. 13 under Eq. 14 as a least-squares problem, solved by QR: with w_l = w - sum_{k<l} eta_k phi1_k the cost is
    |sqrt(alpha) eta|^2 + sum_{l=1..L} |sqrt(1-alpha) (sum_{k<l} phi1_k eta_k - (w - phi2_l))|^2 (l = 0 is constant)."""
    L = len(phi1)
    rows = [np.sqrt(alpha) * np.eye(L)]
    right = [np.zeros(L)]
    for last in range(1, L + 1):
        rows.append(np.sqrt(1 - alpha) * np.where(np.arange(L) < last, phi1.T, 0.0))
        right.append(np.sqrt(1 - alpha) * (w - phi2[last]))
    Q, R = np.linalg.qr(np.concatenate(rows))
    return np.linalg.solve(R, Q.T @ np.concatenate(right))


def path(
    p: Problem,
    i: int,
    w: np.ndarray,
    steps: int,
    phi: tuple[np.ndarray, np.ndarray] | None,
    *,
    alpha: float = 0.1,
    feedback: bool = True,
    update: str = "own",
    eta_min: float | None = 1e-4,
    eta_max: float | None = 0.99,
    momentum: float = 0.0,
    decay: float = 0.0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    """w_{i,0..K}, the raw gradients at w_{i,0..K-1}, the rates, and how often each clamp bound; phi None: plain SGD."""
    x, g, eta, m, bound = [w], [], [], np.zeros_like(w), [0, 0, 0]
    for k in range(steps):
        g.append(p.gradient(i, x[k]))
        m = momentum * m + g[k] + decay * x[k]
        rate, move = p.lr, m
        if phi is not None:
            phi1, phi2 = phi
            rate = solve(x[k], phi1[k:], phi2[k:], alpha)[0] if feedback else solve(w, phi1, phi2, alpha)[k]
            low = eta_min is not None and rate < eta_min
            high = eta_max is not None and rate > eta_max
            rate = eta_min if low else eta_max if high else rate
            bound[0 if low else 2 if high else 1] += 1
            move = m if update == "own" else phi1[k]
        eta.append(rate)
        x.append(x[k] - rate * move)
    return np.array(x), np.array(g), np.array(eta), bound


def means(paths: dict[int, Any], phi: tuple[np.ndarray, np.ndarray], old: np.ndarray, new: np.ndarray):
    """Unweighted means over the distinct devices that reached an epoch; w_l shifted by new - old. What nobody reached
    stays (phi1) or is shifted as it is (phi2)."""
    phi1, phi2 = phi[0].copy(), phi[1].copy()
    for k in range(len(phi1)):
        if reached := [g[k] for _, g, _, _ in paths.values() if len(g) > k]:
            phi1[k] = np.mean(reached, axis=0)
    for k in range(len(phi2)):
        if reached := [x[k] for x, _, _, _ in paths.values() if len(x) > k]:
            phi2[k] = np.mean(reached, axis=0)
    return phi1, phi2 + (new - old)


def derive(p: Problem, weighting: str = "size", L: int | None = None, **fields: Any):
    L = int(p.steps.max()) if L is None else L
    w, phi = [p.w0], (np.zeros((L, len(p.w0))), np.tile(p.w0, (L + 1, 1)))
    rates, bound = [], np.zeros(3, int)
    plain = {name: fields[name] for name in ("momentum", "decay") if name in fields}
    for t, cohort in enumerate(p.cohorts or []):
        share = p.weights(cohort, weighting)
        known, terms = (None, plain) if t == 0 else (phi, fields)
        paths = {i: path(p, i, w[t], int(p.steps[t, i]), known, **terms) for i in share}
        w.append(sum(q * paths[i][0][-1] for i, q in share.items()))
        phi = means(paths, phi, w[t], w[t + 1])
        rates.append({i: paths[i][2] for i in share})
        bound += np.sum([paths[i][3] for i in share], axis=0)
    return np.array(w), phi, rates, bound


def run(
    p: Problem, weighting: str = "size", L: int | None = None, momentum: float = 0.0, decay: float = 0.0, **fields: Any
):
    keys: dict[str, Any] = {f"algo.{name}": value for name, value in ({"mean_field": "history"} | fields).items()}
    keys |= {} if L is None else {"epochs": L}
    return p.run("fedagg", weighting=weighting, momentum=momentum, weight_decay=decay, **keys)


def compare(p: Problem, weighting: str = "size", **fields: Any):
    expected = derive(p, weighting, **fields)
    trace = run(p, weighting, **fields)
    w, (phi1, phi2), rates, bound = expected
    for t, row in enumerate(trace.rows):
        for k in range(len(phi1)):
            reached = [eta[k] for eta in rates[t].values() if len(eta) > k]
            assert row[f"rate_{k}"] == pytest.approx(np.mean(reached) if reached else 0.0, abs=1e-9)
    assert row["clamps"] == bound[0] + bound[2]
    agree(trace.w, w)
    agree(trace.server["w"], w[-1])
    agree(trace.server["phi1"], phi1)
    agree(trace.server["phi2"], phi2)
    agree(trace.server["phi2"][0], w[-1])
    return expected


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize("update", ["own", "aggregated"])
@pytest.mark.parametrize("feedback", [True, False])
@pytest.mark.parametrize("alpha", [0.1, 0.6])
def test_rates_follow_from_the_last_rounds_means(
    seed: int, weighting: str, update: str, feedback: bool, alpha: float
) -> None:
    """Round 0: plain SGD at lr.  Then eta_{i,l} is the first component of the optimum of Eq. 13 for the epochs that
    remain, from the device's own w_l (feedback), or component l of the optimum from the model received; clamped to
    [1e-4, 0.99];  w_{l+1} = w_l - eta g_i(w_l) (own) or w_l - eta phi1_l (aggregated).  L is the run's for everybody,
    a straggler stops early on the same plan.  phi1_l, phi2_l: last round's unweighted means over the distinct devices
    that reached epoch l, of g_i(w_{i,l}) and of w_{i,l} + w_t - w_{t-1}, so that phi2_0 = w_t; an epoch that nobody
    reached (the last of round 2) keeps its own.  w+ = sum p_i w_i."""
    p = make(170 + seed)
    compare(p, weighting, alpha=alpha, feedback=feedback, update=update)


@pytest.mark.parametrize("update", ["own", "aggregated"])
@pytest.mark.parametrize("feedback", [True, False])
@pytest.mark.parametrize("clamp", [(0.03, 0.12), (None, 0.12), (0.05, None), (None, None), (0.1, 0.1)], ids=str)
def test_rates_are_clamped_at_either_end(update: str, feedback: bool, clamp: tuple[float | None, float | None]) -> None:
    """Either end may be open. Round 0 is at lr = 0.15, outside the interval: it is not clamped."""
    p = make(174)
    fields = {"eta_min": clamp[0], "eta_max": clamp[1], "update": update, "feedback": feedback}
    _, _, rates, bound = compare(p, **fields)
    assert all((eta == p.lr).all() for eta in rates[0].values())
    assert (bound[0] > 0) == (clamp[0] is not None) and (bound[2] > 0) == (clamp[1] is not None)
    assert (bound[1] > 0) == (clamp != (0.1, 0.1))


@pytest.mark.parametrize("update", ["own", "aggregated"])
@pytest.mark.parametrize("feedback", [True, False])
@pytest.mark.parametrize("eta_min", [None, 0.02])
def test_epochs_that_nobody_ever_reached(update: str, feedback: bool, eta_min: float | None) -> None:
    """epochs = 6 with at most 4 steps: phi1_4 = phi1_5 = 0 and phi2_5 = phi2_6 = w for ever, and they count in the
    horizon. Then the last device to reach the end is alone, and later nobody is: rates from phi1 = 0 are 0."""
    p = make(175)
    compare(p, L=6, update=update, feedback=feedback, eta_min=eta_min)
    steps = p.steps.copy()
    steps[0] = [1, 1, 1, 2, 1]
    steps[3] = [1, 1, 1, 1, 4]
    _, _, rates, _ = compare(replace(p, steps=steps), update=update, feedback=feedback, eta_min=eta_min)
    assert rates[1][1][2] == rates[1][1][3] == (eta_min or 0.0)


@pytest.mark.parametrize("feedback", [True, False])
@pytest.mark.parametrize(("momentum", "decay"), [(0.5, 0.0), (0.0, 0.1), (0.3, 0.05)])
def test_momentum_and_decay_follow_the_derivation(feedback: bool, momentum: float, decay: float) -> None:
    """w_{l+1} = w_l - eta_l m_l, m_l <- rho m + g + decay w; phi1 is the mean of the raw gradients all the same."""
    compare(make(176), feedback=feedback, eta_max=0.2, momentum=momentum, decay=decay)


def test_cohorts_of_unequal_size() -> None:
    p = replace(make(177), cohorts=[[2], [4, 0, 1], [3, 3, 3, 0, 0], [0, 1, 2, 3, 4], [1, 1]])
    compare(p)
    compare(p, "uniform", update="aggregated", feedback=False)


def prerun(p: Problem, weighting: str = "size", **fields: Any):
    """The models, and FedAvg's traces: per round the means of w, of the gradients, and how many reached each epoch."""
    plain, w, traces = [p.w0], [p.w0], []
    phi = (np.zeros((4, len(p.w0))), np.tile(p.w0, (5, 1)))
    for t, cohort in enumerate(p.cohorts or []):
        share = p.weights(cohort, weighting)
        paths = {i: path(p, i, plain[t], int(p.steps[t, i]), None) for i in share}
        phi = means(paths, phi, plain[t], plain[t])
        traces.append((*phi, [sum(p.steps[t, i] >= k for i in share) for k in range(5)]))
        plain.append(sum(q * paths[i][0][-1] for i, q in share.items()))
        ours = {i: path(p, i, w[t], int(p.steps[t, i]), phi, **fields) for i in share}
        w.append(sum(q * ours[i][0][-1] for i, q in share.items()))
        phi = phi[0], phi[1] + plain[t + 1] - plain[t]
    return np.array(w), traces


def given(traces: list[Any], **fields: Any):
    """FedAgg in a federation that knows these traces; what nobody reached is nan in them."""
    from algorithms.fedagg import FedAgg
    from algorithms.views import Trace

    def trace(version: int) -> Trace:
        phi1, phi2, reached = (torch.tensor(np.array(x), dtype=torch.float64) for x in traces[version])
        phi1[reached[1:] == 0] = phi2[reached == 0] = torch.nan
        return Trace(w=phi2, gradient=phi1, reached=reached)

    class Given(FedAgg):
        def init_server(self, w: Any, fed: Any) -> Any:
            return super().init_server(w, replace(fed, trace=trace))

        def local(self, jobs: Any, w: Any, epoch: int, fed: Any) -> Any:
            return super().local(jobs, w, epoch, replace(fed, trace=trace))

        def aggregate(self, server: Any, updates: Any, fed: Any) -> Any:
            return super().aggregate(server, updates, replace(fed, trace=trace))

    return Given(mean_field="prerun", **fields)


def somebody_does_all(p: Problem) -> Problem:
    steps = p.steps.copy()
    steps[2, 3] = 4
    return replace(p, steps=steps)


@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize("update", ["own", "aggregated"])
@pytest.mark.parametrize("feedback", [True, False])
def test_rates_follow_from_a_run_of_fedavg_ahead(weighting: str, update: str, feedback: bool) -> None:
    """phi1^t, phi2^t are the means over the distinct devices of round t of a run of FedAvg with the same cohorts and
    steps, not shifted; they serve from round 0 on. (Somebody does all four epochs in every round here.)"""
    p = somebody_does_all(make(178))
    w, _ = prerun(p, weighting, update=update, feedback=feedback)
    agree(run(p, weighting, mean_field="prerun", update=update, feedback=feedback).w, w)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("update", ["own", "aggregated"])
@pytest.mark.parametrize("feedback", [True, False])
def test_rates_follow_from_given_traces_of_fedavg(update: str, feedback: bool, whole: bool) -> None:
    """The same with FedAvg's traces from the derivation. An epoch that nobody reached in round t keeps the phi1 of
    round t - 1, and its phi2 shifted by what FedAvg's model moved."""
    p = somebody_does_all(make(178)) if whole else make(178)
    w, traces = prerun(p, update=update, feedback=feedback)
    agree(p.run(given(traces, update=update, feedback=feedback)).w, w)


def fixed_point(p: Problem, weighting: str = "size", epsilon: float = 1e-3, J: int = 10, **fields: Any):
    w, phi, passes = [p.w0], (np.zeros((4, len(p.w0))), np.tile(p.w0, (5, 1))), []
    for t, cohort in enumerate(p.cohorts or []):
        share = p.weights(cohort, weighting)
        for j in range(1, J + 1):
            first = j == 1
            known, terms = (None, {}) if first else (phi, fields)
            paths = {i: path(p, i, w[t], int(p.steps[t, i]), known, **terms) for i in share}
            new = means(paths, phi, w[t], w[t])
            change = max(np.linalg.norm(x - y, axis=1).sum() for x, y in zip(new, phi, strict=True))
            phi = new
            if change <= epsilon and not first:
                break
        passes.append(j)
        w.append(sum(q * paths[i][0][-1] for i, q in share.items()))
        phi = phi[0], phi[1] + w[t + 1] - w[t]
    return np.array(w), phi, passes


@pytest.mark.parametrize("update", ["own", "aggregated"])
@pytest.mark.parametrize("feedback", [True, False])
@pytest.mark.parametrize(("alpha", "weighting"), [(0.1, "size"), (0.99, "uniform"), (0.99, "size")])
def test_a_round_is_repeated_until_its_means_stay(alpha: float, weighting: str, update: str, feedback: bool) -> None:
    """Alg. 1: the cohort of a round trains from the same w_t again and again, phi being the means of the pass before
    (the round's first pass is plain SGD at lr, and there is nothing yet to compare it with), until sum_l |phi1_l -
    before| and sum_l |phi2_l - before| are both at most 1e-3, ten passes at most; the last pass makes the model."""
    p = make(188)
    w, (phi1, phi2), passes = fixed_point(p, weighting, update=update, feedback=feedback, alpha=alpha)
    trace = run(p, weighting, mean_field="fixed_point", update=update, feedback=feedback, alpha=alpha)
    assert trace.w.shape == w.shape
    agree(trace.w, w)
    agree(trace.server["phi1"], phi1)
    agree(trace.server["phi2"], phi2)
    assert max(passes) < 10 and len(set(passes)) > 2 if alpha > 0.9 else set(passes) == {10}

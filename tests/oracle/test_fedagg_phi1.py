"""FedAgg's readings with epochs of many steps: what phi1 averages, crossed with all that the paper leaves open."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from .problem import Problem, agree, make
from .test_fedagg import solve

S = np.array([3, 1, 4, 2, 5])  # steps in an epoch of each device
CLAMP = {"eta_min": 1e-3, "eta_max": 0.25}
L = 4
Phi = tuple[np.ndarray, np.ndarray]  # [L, P], [L + 1, P]


class Device:
    """The way of device i through its epochs e: x[e] at their starts and at the end; the gradients of all its steps."""

    def __init__(self, p: Problem, i: int, w: np.ndarray, epochs: int, phi: Phi | None, **reading: Any) -> None:
        self.x, self.eta, self.g = [w], [], []
        for e in range(epochs):
            eta = p.lr if phi is None else self.rate(e, *phi, **reading)
            x, found = self.x[e], []
            for _ in range(S[i]):
                found.append(p.A[i] @ x - p.b[i])
                own = phi is None or reading["update"] == "own"
                x = x - eta * (found[-1] if own else phi[0][e] / S[i])
            self.x.append(x)
            self.eta.append(eta)
            self.g.append(found)

    def rate(self, e: int, phi1: np.ndarray, phi2: np.ndarray, *, feedback: bool, clamp: Any, **_: Any) -> float:
        eta = solve(self.x[e], phi1[e:], phi2[e:], 0.1)[0] if feedback else solve(self.x[0], phi1, phi2, 0.1)[e]
        return float(np.clip(eta, clamp["eta_min"] or -np.inf, clamp["eta_max"] or np.inf))


def averages(devices: list[Device], before: Phi, phi1: str) -> Phi:
    """Eqs. 11, 12 over those that got so far; else what was there before, phi2 moved to the same start."""
    of = {"sum": np.sum, "mean": np.mean}[phi1]
    first = [[of(d.g[e], axis=0) for d in devices if len(d.g) > e] for e in range(L)]
    second = [[d.x[e] for d in devices if len(d.x) > e] for e in range(L + 1)]
    moved = before[1] - before[1][0] + devices[0].x[0]
    return (
        np.array([np.mean(rows, axis=0) if rows else before[0][e] for e, rows in enumerate(first)]),
        np.array([np.mean(rows, axis=0) if rows else moved[e] for e, rows in enumerate(second)]),
    )


def derive(p: Problem, mean_field: str, phi1: str, weighting: str = "size", **reading: Any) -> tuple[np.ndarray, Phi]:
    w, plain, known = [p.w0], p.w0, False
    phi: Phi = (np.zeros((L, len(p.w0))), np.tile(p.w0, (L + 1, 1)))
    for t, cohort in enumerate(p.cohorts or []):
        share = p.weights(cohort, weighting)

        def train(start: np.ndarray, given: Phi | None, t: int = t, who: Any = tuple(share)) -> list[Device]:
            return [Device(p, i, start, int(p.steps[t, i]), given, **reading) for i in who]

        def merged(devices: list[Device], share: dict[int, float] = share) -> np.ndarray:
            return sum(q * d.x[-1] for q, d in zip(share.values(), devices, strict=True))

        if mean_field == "prerun":  # FedAvg's averages of the same round
            ahead = train(plain, None)
            phi, plain = averages(ahead, phi, phi1), merged(ahead)
            devices = train(w[t], phi)
        elif mean_field == "history":  # those of the round before, at the new start
            devices = train(w[t], phi if known else None)
            phi, known = averages(devices, phi, phi1), True
        else:  # Alg. 1 with J = 3: three passes from the same start; they do not settle to 1e-3 in so few
            for j in range(3):
                devices = train(w[t], phi if j else None)
                phi = averages(devices, phi, phi1)
        w.append(merged(devices))
        if mean_field != "prerun":
            phi = phi[0], phi[1] - phi[1][0] + w[-1]
    return np.array(w), phi


def run(p: Problem, weighting: str = "size", **fields: Any) -> Any:
    clamp = fields.pop("clamp")
    keys = {f"algo.{name}": value for name, value in (fields | clamp | {"J": 3, "epsilon": 1e-9}).items()}
    return p.run("fedagg", epoch_steps=S, weighting=weighting, **keys)


def problem(seed: int) -> Problem:
    return replace(make(seed), lr=0.05)  # which suits epochs of up to five steps


@pytest.mark.parametrize("mean_field", ["history", "prerun", "fixed_point"])
@pytest.mark.parametrize("phi1", ["sum", "mean"])
@pytest.mark.parametrize("update", ["own", "aggregated"])
@pytest.mark.parametrize("feedback", [True, False])
@pytest.mark.parametrize("weighting", ["size", "uniform"])
def test_every_reading_with_epochs_of_many_steps(
    mean_field: str, phi1: str, update: str, feedback: bool, weighting: str
) -> None:
    """phi1_l = 1/n sum_i of the sum, or of the mean, of the gradients at device i's own steps of epoch l; S_i of them,
    unequal.  own: each step is x - eta g(x);  aggregated: the S_i steps together are w_{l+1} = w_l - eta phi1_l."""
    p = problem(270)
    reading = {"mean_field": mean_field, "phi1": phi1, "update": update, "feedback": feedback, "clamp": CLAMP}
    w, phi = derive(p, weighting=weighting, **reading)
    trace = run(p, weighting, **reading)
    agree(trace.w, w)
    if mean_field != "prerun":  # whose server already holds the next round's
        agree(trace.server["phi1"], phi[0])
        agree(trace.server["phi2"], phi[1])


def test_the_defaults_are_the_reading_that_counts() -> None:
    p = problem(273)
    w, _ = derive(p, weighting="size", mean_field="fixed_point", phi1="mean", update="own", feedback=True, clamp=CLAMP)
    agree(run(p, clamp=CLAMP).w, w)


READING = {"mean_field": "history", "phi1": "mean", "feedback": False, "update": "own", "clamp": CLAMP}


@pytest.mark.parametrize("mean_field", ["history", "prerun", "fixed_point"])
@pytest.mark.parametrize("phi1", ["sum", "mean"])
def test_along_the_aggregated_gradient_only_a_clamp_tells_feedback(mean_field: str, phi1: str) -> None:
    """The tail of the optimum is the optimum of the tail, and w_l is where the plan has it: unclamped, both solve the
    same; where a clamp binds, the plan is left."""
    p = problem(271)
    reading = READING | {"mean_field": mean_field, "phi1": phi1, "update": "aggregated"}
    free, bound = {"eta_min": None, "eta_max": None}, {"eta_min": 0.02, "eta_max": 0.03}
    once, anew = (run(p, **reading | {"clamp": free, "feedback": feedback}).w for feedback in (False, True))
    agree(once, anew, 1e-8)
    assert abs(once - p.w0).max() > 0.1
    once, anew = (run(p, **reading | {"clamp": bound, "feedback": feedback}).w for feedback in (False, True))
    assert abs(once - anew).max() > 0


def test_all_other_pairs_of_readings_differ() -> None:
    p = problem(272)
    words = [
        {"mean_field": m, "phi1": s, "update": u, "feedback": f}
        for m in ("history", "prerun", "fixed_point")
        for s in ("sum", "mean")
        for u, f in (("own", False), ("own", True), ("aggregated", False))
    ]
    ends = [run(p, **READING | reading).w[-1] for reading in words]
    apart = [abs(a - b).max() for k, a in enumerate(ends) for b in ends[:k]]
    assert min(apart) > 1e-3
    one = [p.run("fedagg", **{"algo.phi1": s, "algo.eta_max": 0.25}).w for s in ("sum", "mean")]
    assert (one[0] == one[1]).all()  # an epoch is one step

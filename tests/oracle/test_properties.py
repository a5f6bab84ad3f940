"""What must not matter, and changes of a problem under which a method's path must change in a known way.

A method is a formula with units: w in [w], lr in [time] (lr g is in [w], g in [w/time]). Changing either unit changes
each hyper-parameter and state by its power, given below as (power of the unit of w, power of 1/time); nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from .problem import Problem, agree, make
from .test_limits import OPT, full

# all that these keep is made of the p_i
STATELESS = ["fedavg", "fedprox", "fednova", "fedcm", "fedsam", *OPT, "fedbabu", "fedlga"]
SYNC = [*STATELESS, "scaffold", "feddyn", "mimelite", "fedagg"]
SERVER = {"w", "c", "h", "Delta", "m", "v", "phi1", "phi2"}


def keys(algo: str) -> dict[str, Any]:
    return {"fedbabu": {"deep": 1}, "fedlga": {"algo.scale": -0.1}}.get(algo, {})


FIELDS: dict[str, dict[str, float]] = {
    "fedprox": {"mu": 0.3},
    "fednova": {"mu": 0.3},
    "feddyn": {"alpha": 0.3},
    "fedcm": {"a": 0.3, "eta_g": 0.4},
    "mimelite": {"beta": 0.4},
    "fedsam": {"r": 0.2},
    "fedadam": {"eta_s": 0.2, "tau": 0.1},
    "fedyogi": {"eta_s": 0.2, "tau": 0.1},
    "fedadagrad": {"eta_s": 0.2, "tau": 0.1},
    "fedlga": {"scale": -0.1},
    "fedagg": {"alpha": 0.3, "eta_min": 0.01, "eta_max": 0.5, "epsilon": 1e-300},  # ten passes, always
}
UNITS: dict[str, tuple[int, int]] = {
    "mu": (0, 1),
    "feddyn alpha": (0, 1),
    "eta_g": (0, -1),
    "r": (1, 0),
    "eta_s": (1, 0),
    "tau": (1, 0),
    "scale": (-2, -2),
    "eta_min": (0, -1),
    "eta_max": (0, -1),
}
STATES: dict[str, tuple[int, int]] = {
    "w": (1, 0),
    "c": (1, 1),
    "h": (1, 1),
    "Delta": (1, 1),
    "mimelite m": (1, 1),
    "m": (1, 0),
    "v": (2, 0),
    "phi1": (1, 1),
    "phi2": (1, 0),
}


def unit(table: dict[str, tuple[int, int]], algo: str, name: str, size: float, rate: float) -> float:
    w, time = table.get(f"{algo} {name}", table.get(name, (0, 0)))
    return size**w * rate**time


def fields(algo: str, size: float = 1.0, rate: float = 1.0) -> dict[str, float]:
    """FedAgg's alpha weighs eta^2 [time^2] against |w|^2: alpha/(1-alpha) is in [w^2/time^2]."""
    found = {name: value * unit(UNITS, algo, name, size, rate) for name, value in FIELDS.get(algo, {}).items()}
    if algo == "fedagg":
        odds = found["alpha"] / (1 - found["alpha"]) * (size * rate) ** 2
        found["alpha"] = odds / (1 + odds)
    return keys(algo) | {f"algo.{name}": value for name, value in found.items()}


def same(algo: str, before: Any, after: Any, size: float = 1.0, rate: float = 1.0, tolerance: float = 1e-10) -> None:
    agree(after.w / size, before.w, tolerance)
    for old, new in ((before.server, after.server), (before.clients, after.clients)):
        assert old.keys() == new.keys()
        for name in old.keys() & {key.split()[-1] for key in STATES}:
            agree(new[name] / unit(STATES, algo, name, size, rate), old[name], tolerance)


@pytest.mark.parametrize("size", [0.125, 3.7])
@pytest.mark.parametrize("algo", SYNC)
def test_the_unit_of_w(algo: str, size: float) -> None:
    """w_0 and b times s: the optima move out by s, gradients grow by s."""
    p = make(180)
    q = replace(p, w0=size * p.w0, b=size * p.b)
    same(algo, p.run(algo, momentum=0.3, **fields(algo)), q.run(algo, momentum=0.3, **fields(algo, size)), size)


@pytest.mark.parametrize("rate", [0.25, 2.3])
@pytest.mark.parametrize("algo", SYNC)
def test_the_unit_of_time(algo: str, rate: float) -> None:
    """A and b times c, lr over c: the same steps by larger gradients and a smaller rate."""
    p = make(181)
    q = replace(p, A=rate * p.A, b=rate * p.b, lr=p.lr / rate)
    before = p.run(algo, momentum=0.3, weight_decay=0.1, **fields(algo))
    after = q.run(algo, momentum=0.3, weight_decay=0.1 * rate, **fields(algo, 1.0, rate))
    same(algo, before, after, 1.0, rate)


@pytest.mark.parametrize("algo", SYNC)
def test_a_shifted_problem_has_a_shifted_path(algo: str) -> None:
    """w_0 moved by s and every optimum with it (b_i + A_i s): all models move by s. Weights that do not sum to one
    would show here, as would a v_0, m_0 or phi made from w_0 itself."""
    p = make(182)
    shift = np.array([1.0, -2.0, 0.5, 3.0])
    q = replace(p, w0=p.w0 + shift, b=p.b + p.A @ shift)
    before, after = (x.run(algo, momentum=0.3, **fields(algo)) for x in (p, q))
    agree(after.w - shift, before.w, 1e-10)
    for name in before.server.keys() & {"c", "h", "Delta", "m", "v", "phi1"}:
        agree(after.server[name], before.server[name], 1e-10)
    if "phi2" in before.server:
        agree(after.server["phi2"] - shift, before.server["phi2"], 1e-10)


def turn(p: Problem, Q: np.ndarray) -> Problem:
    return replace(p, A=Q @ p.A @ Q.T, b=p.b @ Q.T, w0=Q @ p.w0)


@pytest.mark.parametrize("algo", [name for name in SYNC if name not in [*OPT, "fedbabu"]])
def test_a_rotated_problem_has_a_rotated_path(algo: str) -> None:
    """Rotated problems have rotated paths; all but v of the adaptive servers and FedBABU's head."""
    p = make(183)
    Q = np.linalg.qr(np.random.default_rng(183).normal(size=(4, 4)))[0]
    before, after = (x.run(algo, momentum=0.3, **fields(algo)) for x in (p, turn(p, Q)))
    agree(after.w @ Q, before.w, 1e-10)
    for name in before.server.keys() & {"c", "h", "Delta", "m", "phi1", "phi2"}:
        agree(after.server[name] @ Q, before.server[name], 1e-10)


@pytest.mark.parametrize("algo", OPT)
def test_the_order_and_sign_of_the_axes(algo: str) -> None:
    """The adaptive servers work coordinate by coordinate, on squares: they keep signs and order, not angles."""
    p = make(184)
    Q = np.eye(4)[[2, 0, 3, 1]] * np.array([1.0, -1.0, -1.0, 1.0])
    before, after = (x.run(algo, **fields(algo)) for x in (p, turn(p, Q)))
    agree(after.w @ Q, before.w, 1e-10)
    agree(after.server["v"].numpy() @ np.abs(Q), before.server["v"], 1e-10)
    R = np.linalg.qr(np.random.default_rng(184).normal(size=(4, 4)))[0]
    assert np.abs(turn(p, R).run(algo, **fields(algo)).w.numpy() @ R - before.w.numpy()).max() > 1e-3


def test_a_problem_rotated_in_the_body_has_a_rotated_path() -> None:
    p = make(185)
    Q = np.eye(4)
    Q[:3, :3] = np.linalg.qr(np.random.default_rng(185).normal(size=(3, 3)))[0]
    before, after = (x.run("fedbabu", deep=1) for x in (p, turn(p, Q)))
    agree(after.w @ Q, before.w, 1e-10)


@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize("algo", SYNC)
def test_drawn_twice_is_two_of_a_kind_for_the_model(algo: str, weighting: str) -> None:
    """Device 2 drawn twice, or once beside its twin 5: the same p, so the same path where all state is made of p_i.
    Where the server's state takes each device once (c, h, m, phi), two are more than one."""
    p = make(186)
    twins = replace(
        p,
        A=p.A[[0, 1, 2, 3, 4, 2]],
        b=p.b[[0, 1, 2, 3, 4, 2]],
        samples=p.samples[[0, 1, 2, 3, 4, 2]],
        steps=p.steps[:, [0, 1, 2, 3, 4, 2]],
        cohorts=[[0, 2, 5, 1], [3, 4, 2], [5, 2, 3], [0, 1, 4], [2, 5, 4]],
    )
    twice = replace(p, cohorts=[[0, 2, 2, 1], [3, 4, 2], [2, 2, 3], [0, 1, 4], [2, 2, 4]])
    one, two = (x.run(algo, weighting=weighting, **fields(algo)).w for x in (twice, twins))
    if algo in STATELESS:
        agree(one, two, 1e-11)
    else:
        assert (one - two).abs().max() > 1e-5


@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize("algo", SYNC)
def test_weights_sum_to_one(algo: str, weighting: str) -> None:
    """Devices that are all alike, everybody in every round: whatever the p_i, as long as they sum to one, the model and
    the server's state (means over all N devices) are those of one device alone."""
    p = full(make(187), 4)
    alike = replace(
        p,
        A=np.repeat(p.A[:1], 5, 0),
        b=np.repeat(p.b[:1], 5, 0),
        steps=np.repeat(p.steps[:, :1], 5, 1),
    )
    alone = replace(p, A=p.A[:1], b=p.b[:1], steps=p.steps[:, :1], samples=p.samples[:1], cohorts=[[0]] * 4)
    many, one = (x.run(algo, weighting=weighting, momentum=0.3, **fields(algo)) for x in (alike, alone))
    agree(many.w, one.w, 1e-11)
    for name in many.server.keys() & SERVER:
        agree(many.server[name], one.server[name], 1e-11)
    for name, rows in many.clients.items():
        agree(rows, one.clients[name].expand_as(rows), 1e-11)


@pytest.mark.parametrize("algo", SYNC)
def test_without_cohorts_a_synchronous_method_takes_everybody(algo: str) -> None:
    p = full(make(71), 4)
    agree(p.run(algo, **keys(algo)).w, replace(p, cohorts=None).run(algo, **keys(algo)).w, 1e-12)


@pytest.mark.parametrize("algo", SYNC)
def test_synchronous_results_do_not_depend_on_seconds(algo: str) -> None:
    p = make(72)
    seconds = np.random.default_rng(72).uniform(0.1, 5.0, p.steps.shape)
    one, other = p.run(algo, **keys(algo)).w, p.run(algo, seconds=seconds, **keys(algo)).w
    if algo == "fedagg":  # its means are accumulated as results come in
        agree(one, other, 1e-12)
    else:
        assert one.equal(other)


@pytest.mark.parametrize("algo", SYNC)
def test_the_order_of_a_cohort_does_not_matter(algo: str) -> None:
    p = make(73)
    q = replace(p, cohorts=[cohort[::-1] for cohort in p.cohorts or []])
    assert p.run(algo, **keys(algo)).w.equal(q.run(algo, **keys(algo)).w)


@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize("algo", [*SYNC, "fedasync"])
def test_identities_do_not_matter(algo: str, weighting: str) -> None:
    """New device j is old device order[j]; cohorts name the new ones. (Asynchronous: no two events at one instant.)"""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        p = make(74 + seed) if algo != "fedasync" else make(74 + seed, rounds=15)
        order = rng.permutation(p.clients)
        cohorts = p.cohorts and [[int(np.flatnonzero(order == i)[0]) for i in cohort] for cohort in p.cohorts]
        own = {"A": p.A[order], "b": p.b[order], "samples": p.samples[order], "steps": p.steps[:, order]}
        moved = replace(p, **own, cohorts=cohorts)
        seconds = rng.uniform(0.5, 5.0, p.clients)
        before = p.run(algo, weighting=weighting, seconds=seconds, **keys(algo))
        after = moved.run(algo, weighting=weighting, seconds=seconds[order], **keys(algo))
        agree(after.w, before.w, 1e-12)
        assert after.clients.keys() == before.clients.keys()
        for name, rows in before.clients.items():
            agree(after.clients[name], rows[order.tolist()], 1e-12)
        assert after.server.keys() == before.server.keys()
        for name in before.server.keys() & SERVER:
            agree(after.server[name], before.server[name], 1e-11)


@pytest.mark.parametrize("algo", [*SYNC, "fedasync"])
def test_only_the_proportions_of_the_samples_matter(algo: str) -> None:
    for seed in range(2):
        p = make(78 + seed) if algo != "fedasync" else make(78 + seed, rounds=15)
        more = replace(p, samples=p.samples * (7, 1000)[seed])
        agree(more.run(algo, **keys(algo)).w, p.run(algo, **keys(algo)).w, 1e-12)


@pytest.mark.parametrize("algo", [*SYNC, "fedasync"])
def test_inputs_are_left_alone_and_runs_repeat(algo: str) -> None:
    p = make(81) if algo != "fedasync" else make(81, rounds=10)
    copies = [x.copy() for x in (p.A, p.b, p.w0, p.samples, p.steps)]
    assert p.run(algo, **keys(algo)).w.equal(p.run(algo, **keys(algo)).w)
    for before, after in zip(copies, (p.A, p.b, p.w0, p.samples, p.steps), strict=True):
        assert np.array_equal(before, after)

"""Two devices with the losses w^2/2 - w and w^2/2 - 3w, one and two local steps of 0.1 from w = 0, weights 1/4 and 3/4.

Plain steps: the first ends at 0.1; the second at 0.3, then 0.3 + 0.1 * 2.7 = 0.57.
"""

import math

import pytest
import torch

from bench.testing import quadratic

W0 = {"w0": [0.0], "lr": 0.1, "samples": [1, 3]}


def run(algo, rounds=1, cohorts=((0, 1), (0,)), **keys):
    A, b = [[[1.0]], [[1.0]]], [[1.0], [3.0]]
    return quadratic(algo, A, b, rounds=rounds, cohorts=list(cohorts)[:rounds], steps=[1, 2], **W0, **keys)


def test_fednova_divides_by_the_steps():
    # tau_eff = 1/4 * 1 + 3/4 * 2
    assert float(run("fednova").w[1]) == pytest.approx(1.75 * (0.25 * 0.1 + 0.75 * 0.57 / 2), abs=1e-14)


def test_fednova_with_momentum():
    # m: -3, then -1.5 - 2.7 = -4.2, so 0.3 + 0.42; a = 1 + 1.5
    expected = (0.25 + 0.75 * 2.5) * (0.25 * 0.1 + 0.75 * 0.72 / 2.5)
    assert float(run("fednova", momentum=0.5).w[1]) == pytest.approx(expected, abs=1e-14)


def test_fednova_with_the_proximal_term():
    # second step: 0.1 * (2.7 - 0.3); a = 0.9 + 1; tau_eff counts steps
    expected = 1.75 * (0.25 * 0.1 + 0.75 * 0.54 / 1.9)
    assert float(run("fednova", **{"algo.mu": 1.0}).w[1]) == pytest.approx(expected, abs=1e-14)


def test_feddyn_takes_the_step_worked_out_by_hand():
    # second step: 0.1 * (2.7 - 0.15), so 0.555; h = -0.25 * (0.1 + 0.555)
    trace = run("feddyn", rounds=2, **{"algo.alpha": 0.5})
    one = 0.25 * 0.1 + 0.75 * 0.555 + 0.16375 / 0.5
    assert float(trace.w[1]) == pytest.approx(one, abs=1e-14)
    # first device again: g - h_i = (one - 1) + 0.05
    delta = -0.1 * (one - 1 + 0.05)
    h = -0.16375 - 0.25 * delta
    assert float(trace.w[2]) == pytest.approx(one + delta - h / 0.5, abs=1e-14)
    assert float(trace.server["h"]) == pytest.approx(h, abs=1e-14)
    assert trace.clients["h"].flatten().tolist() == pytest.approx([-0.05 - 0.5 * delta, -0.2775], abs=1e-14)


@pytest.mark.parametrize("eta_g", [None, 2.0])
def test_fedcm_takes_the_step_worked_out_by_hand(eta_g):
    # half a gradient: 0.05; 0.15, then 0.15 + 0.05 * 2.85 = 0.2925
    trace = run("fedcm", rounds=2, **{"algo.a": 0.5, "algo.eta_g": eta_g})
    direction = -(0.25 * 0.05 / 0.1 + 0.75 * 0.2925 / 0.2)
    one = 0.25 * 0.05 + 0.75 * 0.2925 if eta_g is None else -2 * direction
    two = 0.5 * (one - 1) + 0.5 * direction
    assert trace.w[1:].flatten().tolist() == pytest.approx(
        [one, one - 0.1 * two if eta_g is None else one - 2 * two], abs=1e-14
    )
    assert float(trace.server["Delta"]) == pytest.approx(two, abs=1e-14)


def test_mimelite_takes_the_step_worked_out_by_hand():
    trace = run("mimelite", rounds=2, **{"algo.beta": 0.5})
    one = 0.25 * 0.05 + 0.75 * 0.2925  # m is 0 in the first round
    m = 0.5 * (-1 - 3) / 2  # each device once, unweighted
    two = 0.5 * (one - 1) + 0.5 * m
    assert trace.w[1:].flatten().tolist() == pytest.approx([one, one - 0.1 * two], abs=1e-14)
    assert float(trace.server["m"]) == pytest.approx(two, abs=1e-14)
    assert [row["gradient_evaluations"] for row in trace.rows] == [3 + 2, 3 + 2 + 2]


def test_fedsam_takes_the_step_worked_out_by_hand():
    # gradients at -0.1 and, after 0.11, at 0.01 (and at 0.3 + 0.01 = 0.31, minus 0.1, for the second device)
    second = 0.1 * 3.1
    second += 0.1 * (3 - (second - 0.1))
    trace = run("fedsam")
    assert float(trace.w[1]) == pytest.approx(0.25 * 0.11 + 0.75 * second, abs=1e-14)
    assert trace.rows[0]["gradient_evaluations"] == 6


@pytest.mark.parametrize(
    ("name", "beta1", "v"),
    [
        ("fedadam", 0.9, lambda v, d: 0.99 * v + 0.01 * d**2),
        ("fedyogi", 0.9, lambda v, d: v - 0.01 * d**2 * math.copysign(1, v - d**2)),
        ("fedadagrad", 0.0, lambda v, d: v + d**2),
    ],
)
def test_fedopt_takes_the_step_worked_out_by_hand(name, beta1, v):
    trace = run(name, rounds=2)
    w, m, second = 0.0, 0.0, 1e-6
    for d in (0.25 * 0.1 + 0.75 * 0.57, None):
        d = 0.1 * (1 - w) if d is None else d
        m, second = beta1 * m + (1 - beta1) * d, v(second, d)
        w += 0.03 * m / (math.sqrt(second) + 0.001)
    assert [float(trace.w[2]), float(trace.server["m"]), float(trace.server["v"])] == pytest.approx(
        [w, m, second], abs=1e-13
    )


A = torch.tensor([[[2.0, 0.3], [0.3, 1.0]], [[1.0, 0.0], [0.0, 3.0]], [[0.5, 0.1], [0.1, 0.7]]], dtype=torch.float64)
B = torch.tensor([[1.0, -1.0], [0.5, 2.0], [-1.0, 0.3]], dtype=torch.float64)


def general(algo, **keys):
    keys = {
        "lr": 0.1,
        "rounds": 4,
        "samples": [5, 2, 9],
        "steps": 3,
        "cohorts": [[0, 1], [1, 2], [0, 2, 2], [1]],
        **keys,
    }
    return quadratic(algo, A, B, w0=[1.0, -2.0], **keys)


@pytest.mark.parametrize(
    ("algo", "fields"),
    [("fedsam", {"algo.r": 0.0}), ("fedcm", {"algo.a": 1.0}), ("mimelite", {"algo.beta": 0.0})],
)
def test_without_its_term_a_method_is_fedavg_bit_for_bit(algo, fields):
    assert torch.equal(general(algo, **fields).w, general("fedavg").w)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_fednova_with_equal_steps_is_fedavg(momentum):
    torch.testing.assert_close(
        general("fednova", momentum=momentum).w, general("fedavg", momentum=momentum).w, rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("alpha", [1e-4, 0.01])
def test_feddyn_starts_with_a_long_step(alpha):
    """w_0 + (1 + |S|/N) mean delta, plus the drift of its own proximal term."""
    keys = {"rounds": 1, "cohorts": [[0, 2]], "weighting": "uniform"}
    proximal = general("fedprox", **{"algo.mu": alpha}, **keys).w
    expected = proximal[0] + (1 + 2 / 3) * (proximal[1] - proximal[0])
    torch.testing.assert_close(general("feddyn", **{"algo.alpha": alpha}, **keys).w[1], expected, rtol=0, atol=1e-11)


def test_feddyn_h_is_the_mean_of_all_h_i():
    trace = general("feddyn", **{"algo.alpha": 0.3})
    torch.testing.assert_close(trace.server["h"], trace.clients["h"].mean(0), rtol=0, atol=1e-13)

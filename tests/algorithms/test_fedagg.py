import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from algorithms.fedagg import FedAgg, learning_rates
from bench.prepare import compose
from bench.prepare.assemble import build
from bench.testing import quadratic


def problem(L, P=7, seed=0):
    g = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((P,), (L, P), (L + 1, P)))


def objective(eta, w, phi1, phi2, alpha):
    """Eq. (13) for one round, under Eq. (14); eta_L = 0."""
    total = (1 - alpha) * float((w - phi2[0]) @ (w - phi2[0]))
    for q, rate in enumerate(eta):
        w = w - rate * phi1[q]
        total += alpha * rate**2 + (1 - alpha) * float((w - phi2[q + 1]) @ (w - phi2[q + 1]))
    return total


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.9])
@pytest.mark.parametrize("L", [1, 2, 3, 6])
def test_rates_satisfy_theorem_1(L, alpha):
    w0, phi1, phi2 = problem(L, seed=L)
    eta = learning_rates(w0, phi1, phi2, alpha)
    w = w0
    for q in range(L):
        inner = (L - q) * w - sum((L - r) * eta[r] * phi1[r] for r in range(q, L)) - phi2[q + 1 :].sum(0)
        torch.testing.assert_close(eta[q], (1 - alpha) / alpha * (phi1[q] @ inner), rtol=1e-9, atol=1e-10)  # Eq. (15)
        w = w - eta[q] * phi1[q]


def test_the_last_rate_is_eq_27():
    w, phi1, phi2 = problem(1)
    c = 0.9 / 0.1
    expected = c * (phi1[0] @ (w - phi2[1])) / (1 + c * phi1[0] @ phi1[0])
    torch.testing.assert_close(learning_rates(w, phi1, phi2, 0.1)[0], expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("L", [1, 3, 5])
def test_rates_are_what_a_minimiser_finds(L):
    w, phi1, phi2 = problem(L, seed=10 + L)
    found = minimize(objective, np.zeros(L), (w, phi1, phi2, 0.3), method="BFGS", options={"gtol": 1e-9})
    eta = learning_rates(w, phi1, phi2, 0.3)
    assert eta.numpy() == pytest.approx(found.x, abs=1e-6)
    assert objective(eta.tolist(), w, phi1, phi2, 0.3) <= found.fun + 1e-12


def test_on_the_mean_path_itself_the_rate_is_zero():
    w, phi1, _ = problem(3)
    assert learning_rates(w, phi1, w.repeat(4, 1), 0.1).tolist() == pytest.approx([0, 0, 0], abs=1e-15)


def test_single_precision_survives_parallel_gradients():
    w, phi1, _ = problem(3, P=1000)
    phi1 = (1000 * (phi1[0] + 1e-4 * phi1)).float()
    w = w.float()
    phi2 = torch.cat([w[None], w - 0.01 * phi1.cumsum(0)])
    single, double = (learning_rates(*(t.to(d) for t in (w, phi1, phi2)), 0.1) for d in (torch.float32, torch.float64))
    torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=1e-7)


A = torch.tensor([[[2.0, 0.3], [0.3, 1.0]], [[1.0, 0.0], [0.0, 3.0]], [[0.5, 0.1], [0.1, 0.7]]], dtype=torch.float64)
B = torch.tensor([[1.0, -1.0], [0.5, 2.0], [-1.0, 0.3]], dtype=torch.float64)
FREE = {"algo.eta_min": None, "algo.eta_max": None}


def run(rounds=2, **keys):
    keys = {"lr": 0.1, "samples": [5, 2, 9], "steps": 2, **keys}
    return quadratic("fedagg", A, B, w0=[1.0, -2.0], rounds=rounds, **keys)


def walk(i, w, rates):
    ws, gs = [w], []
    for rate in rates:
        gs.append(A[i] @ ws[-1] - B[i])
        ws.append(ws[-1] - rate * gs[-1])
    return torch.stack(ws), torch.stack(gs)


def test_round_zero_is_fedavg_and_leaves_its_mean_path():
    trace = run(1)
    plain = quadratic("fedavg", A, B, w0=[1.0, -2.0], rounds=1, lr=0.1, samples=[5, 2, 9], steps=2)
    assert torch.equal(trace.w, plain.w)
    paths = [walk(i, trace.w[0], [0.1, 0.1]) for i in range(3)]
    torch.testing.assert_close(trace.server["phi1"], torch.stack([g for _, g in paths]).mean(0))
    moved = torch.stack([w for w, _ in paths]).mean(0) - trace.w[0] + trace.w[1]
    torch.testing.assert_close(trace.server["phi2"], moved)
    assert [trace.rows[0]["rate_0"], trace.rows[0]["rate_1"]] == pytest.approx([0.1, 0.1], abs=1e-15)
    assert trace.rows[0]["clamps"] == 0


@pytest.mark.parametrize("update", ["own", "aggregated"])
@pytest.mark.parametrize("feedback", [True, False])
def test_round_one_uses_the_mean_path_of_round_zero(feedback, update):
    first, trace = run(1), run(2, **FREE, **{"algo.feedback": feedback, "algo.update": update})
    phi1, phi2, start = first.server["phi1"], first.server["phi2"], first.w[1]
    ends, used = [], []
    for i in range(3):
        w, rates = start, learning_rates(start, phi1, phi2, 0.1)
        for epoch in range(2):
            rate = learning_rates(w, phi1[epoch:], phi2[epoch:], 0.1)[0] if feedback else rates[epoch]
            w = w - rate * (A[i] @ w - B[i] if update == "own" else phi1[epoch])
            used.append(rate)
        ends.append(w)
    torch.testing.assert_close(
        trace.w[2], torch.tensor([5, 2, 9]).double() / 16 @ torch.stack(ends), rtol=0, atol=1e-12
    )
    assert trace.rows[1]["rate_0"] == pytest.approx(float(sum(used[::2]) / 3), abs=1e-13)
    assert trace.rows[1]["rate_1"] == pytest.approx(float(sum(used[1::2]) / 3), abs=1e-13)


def test_an_epoch_that_nobody_reached_keeps_its_means():
    before, trace = run(1), run(2, steps=[[2, 2, 2], [1, 1, 1]])
    torch.testing.assert_close(trace.server["phi1"][1], before.server["phi1"][1])
    shift = trace.w[2] - trace.w[1]
    torch.testing.assert_close(trace.server["phi2"][2], before.server["phi2"][2] + shift)
    at_first = run(1, steps=[[1, 1, 1]], epochs=2)
    assert at_first.server["phi1"][1].tolist() == [0, 0]
    assert at_first.rows[0]["rate_1"] == 0


def test_clamps_are_counted():
    trace = run(3, **{"algo.eta_min": 0.5, "algo.eta_max": 0.5001})
    assert [row["clamps"] for row in trace.rows] == [0, 6, 12]
    assert 0.5 <= trace.rows[2]["rate_1"] <= 0.5001


def test_round_zero_is_not_clamped_even_where_its_rate_is_a_bound():
    assert run(1, **{"algo.eta_max": 0.1}).rows[0]["clamps"] == 0  # lr is 0.1


def test_fixed_point_repeats_the_round_until_the_mean_field_settles():
    keys = {"algo.mean_field": "fixed_point", "algo.J": 200, "algo.epsilon": 1e-10, "algo.eta_min": 1e-12}
    keys["algo.alpha"] = 0.9  # each pass shrinks the rate by about G / (G + alpha / (1 - alpha)), G = |phi1|^2
    trace = run(1, **keys)
    # at the fixed point all devices that follow phi1 coincide, and the rate is 0 (the clamp's least)
    aggregated = run(1, **keys, **{"algo.update": "aggregated"})
    for found in (trace, aggregated):
        assert found.rows[0]["version"] == 1
        assert 12 < found.rows[0]["gradient_evaluations"] <= 6 * 200
        assert found.rows[0]["gradient_evaluations"] % 6 == 0
    assert aggregated.rows[0]["rate_0"] == pytest.approx(0, abs=1e-9)
    torch.testing.assert_close(aggregated.w[1], aggregated.w[0], rtol=0, atol=1e-8)


def test_fixed_point_stops_at_the_cap():
    trace = run(2, **{"algo.mean_field": "fixed_point", "algo.J": 3, "algo.epsilon": 1e-300})
    assert [row["gradient_evaluations"] for row in trace.rows] == [18, 36]
    plain = run(2, **{"algo.mean_field": "fixed_point", "algo.J": 1})
    assert torch.equal(plain.w, quadratic("fedavg", A, B, w0=[1, -2], rounds=2, lr=0.1, samples=[5, 2, 9], steps=2).w)


def parts(*overrides):
    small = ["dataset=digits", "clients=8", "cohort=3", "rounds=3", "epochs=2", "test_samples=64", "algo=fedagg"]
    return build(compose.config([*small, *overrides]))


def test_phi1_is_the_mean_of_the_sum_of_an_epochs_gradients():
    """By plain SGD all devices move by lr times it, however many steps they make: w_l - w_{l+1} = lr phi1_l."""
    loop = parts("batch_size=20", "lr=0.05").loop
    for version in range(3):
        trace = loop.fed.trace(version)
        torch.testing.assert_close((trace.w[:-1] - trace.w[1:]) / 0.05, trace.gradient, rtol=1e-3, atol=1e-4)
        assert trace.gradient.abs().max() > 0.1


def test_prerun_follows_the_path_of_fedavg():
    loop = parts("algo.mean_field=prerun").loop
    for version in range(3):
        trace = loop.fed.trace(version)
        assert torch.equal(loop.server["phi1"], trace.gradient)
        assert torch.equal(loop.server["phi2"], trace.w)
        loop.advance()
    assert torch.isfinite(loop.server["w"]).all()


class Watched(FedAgg):
    """Keeps what the server was given."""

    def aggregate(self, server, updates, fed):
        self.seen.append((server, updates))
        return super().aggregate(server, updates, fed)


def test_along_the_mean_gradient_an_epoch_of_many_steps_is_one_step_of_phi1():
    """Eq. (14): w_{l+1} = w_l - eta_l phi1_l, however many mini-batches a device has in an epoch."""
    loop = parts("batch_size=20", "cohort=8", "partition=dirichlet", "partition.alpha=0.3").loop
    steps = [loop.engine.batches.steps_per_epoch(client) for client in range(8)]
    assert min(steps) < max(steps) and max(steps) > 5
    loop.algo = Watched(update="aggregated")
    object.__setattr__(loop.algo, "seen", [])
    loop.advance()
    loop.advance()
    server, updates = loop.algo.seen[1]
    assert (updates.extra["rates"] > 1e-4).all()
    expected = -updates.extra["rates"] @ server["phi1"]
    torch.testing.assert_close(updates.delta, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("mean_field", ["history", "prerun", "fixed_point"])
@pytest.mark.parametrize("update", ["own", "aggregated"])
def test_every_mode_resumes_bit_for_bit(mean_field, update):
    keys = (f"algo.mean_field={mean_field}", f"algo.update={update}", "algo.J=3", "devices.rho=0.5")
    loops = [parts(*keys).loop for _ in range(2)]
    loops[0].advance()
    loops[1].load_state_dict(loops[0].state_dict())
    for loop in loops:
        while not loop.finished:
            loop.advance()
    assert torch.equal(loops[0].server["w"], loops[1].server["w"])


@pytest.mark.parametrize(
    "fields", [{"mean_field": "none"}, {"update": "x"}, {"eta_min": 0.5, "eta_max": 0.1}, {"eta_min": 0.0}]
)
def test_impossible_fields_are_refused(fields):
    with pytest.raises(ValueError, match=r"algo\."):
        FedAgg(**fields)

"""FedLC's formulas by hand, the trap in its listing, a replay of its events."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from algorithms.base import Algorithm, Fed, Jobs, Schedule, Trained, Updates
from algorithms.fedlc import FedLC, demand_row, epsilon, learning_rate, xi
from algorithms.fedlc_variants import FedLC_T, SC_FedLC
from bench.learning.flat import Layout
from bench.testing import Quadratic, quadratic


def vector(*values):
    return torch.tensor(values, dtype=torch.float64)


FREE, FIVE = torch.zeros(40), torch.full((40,), 5.0)


def row(i, norms, budget=5.0, load=FREE, links=FIVE, **k):
    n = len(norms)
    return demand_row(i, norms, budget, load[:n], links[:n], **k).int().tolist()


def test_epsilon_xi_and_the_rate():
    """Norms 1, 2, 3, 6 (sum 12, squares 50): device 0 with the gradient of device 2."""
    norms = vector(1, 2, 3, 6)
    for R in ([2], {2}, torch.tensor([2]), torch.tensor([False, False, True, False])):
        assert float(epsilon(0, R, norms)) == pytest.approx(4 * (1 + 3) / (2 * 12), abs=1e-15)  # 2/3
        assert float(xi(0, R, norms)) == pytest.approx(4 * (1 + 9) / (2 * 50), abs=1e-15)  # 2/5
    assert float(epsilon(3, [], norms)) == pytest.approx(4 * 6 / 12, abs=1e-15)
    assert float(xi(3, torch.zeros(4, dtype=torch.bool), norms)) == pytest.approx(4 * 36 / 50, abs=1e-15)
    assert float(xi(1, [0, 3], norms)) == pytest.approx(4 * (4 + 1 + 36) / (3 * 50), abs=1e-15)
    assert float(learning_rate(*vector(2 / 3, 2 / 5, 2, 10, 40))) == pytest.approx(10 / 3, abs=1e-14)


def test_equal_gradients_give_the_rate_of_equal_devices():
    """Theorem 1 with eps = xi = 1: N / beta for equal shares, whoever is asked."""
    norms = torch.full((6,), 0.7, dtype=torch.float64)
    for R in ([], [1], [1, 4, 5]):
        assert float(epsilon(0, R, norms)) == pytest.approx(1) == pytest.approx(float(xi(0, R, norms)))


def test_localcol_by_hand():
    """Device 0, norms 1, 1, 4, 1. j = 1: 2^2 > 1 x 2, taken. j = 2: 6^2 = 2 x 18, a tie. j = 3: 3^2 > 2 x 3, taken."""
    norms = vector(1, 1, 4, 1)
    assert row(0, norms) == [0, 1, 0, 1]
    assert row(0, norms, budget=3) == [0, 1, 0, 1]  # k = 1, 2 < 3
    assert row(0, norms, budget=2) == [0, 1, 0, 0]
    assert row(0, norms, budget=1) == [0, 0, 0, 0]
    assert row(0, norms, budget=1.5) == [0, 1, 0, 0]
    # device 1 has no room left, so j = 2 is the first: 5^2 > 1 x 17; then 6^2 = 2 x 18 for j = 3
    assert row(0, norms, load=torch.tensor([9.0, 5, 4, 4])) == [0, 0, 1, 0]
    assert row(0, norms, links=torch.tensor([5.0, 0, 0, 1])) == [0, 0, 0, 1]
    # device 2: 5^2 > 17 for j = 0, 6^2 = 2 x 18 for j = 1 and for j = 3
    assert row(2, norms) == [1, 0, 0, 0]


def test_devices_are_taken_in_index_order_and_very_different_gradients_are_not():
    assert row(3, torch.full((8,), 0.3)) == [1, 1, 1, 0, 1, 0, 0, 0]
    # with 1 and 2 chosen, 0.1 is too small: 3.1^2 < 2 x 5.01; with 1, 2 and 1 chosen, 100 too large: 104^2 < 3 x 10006
    assert row(0, vector(1, 2, 0.1, 1, 100)) == [0, 1, 0, 1, 0]
    assert row(0, vector(1, 0, 1)) == [0, 0, 1]
    assert row(0, vector(0, 1, 1)) == [0, 0, 0] == row(1, vector(0, 0, 0))  # eps and xi are 0/0: nobody


def as_printed(i, norms, budget, load, links, extra):
    """Alg. 1, l. 24-37 with Eqs. (40) and (42) written out; extra = 1 counts j in k before it is chosen."""
    N, S, k = len(norms), [], 1
    bar = (N * norms[i] / sum(norms)) ** 2 / (N * norms[i] ** 2 / sum(norms**2))
    for j in range(N):
        if j != i and k < budget and load[j] < links[j]:
            those = norms[[i, *S, j]]
            eps, x = N * sum(those) / ((k + extra) * sum(norms)), N * sum(those**2) / ((k + extra) * sum(norms**2))
            if eps**2 / x > bar:
                S.append(j)
                k += 1
    return [int(j in S) for j in range(N)]


def draws(number):
    rng = np.random.default_rng(5)
    for _ in range(number):
        N = int(rng.integers(2, 21))
        yield int(rng.integers(N)), rng.lognormal(0, rng.choice([0.1, 1, 3]), N), N, rng


def test_the_listing_is_followed_on_random_draws():
    chosen = 0
    for i, norms, N, rng in draws(300):
        budget, load, links = float(rng.integers(1, 20)), rng.integers(0, 7, N), rng.integers(1, 7, N)
        tensors = torch.tensor(norms), budget, torch.tensor(load), torch.tensor(links)
        found = demand_row(i, *tensors).int().tolist()
        assert found == as_printed(i, norms, budget, load, links, 0)
        assert sum(found) < budget and not found[i]
        chosen += sum(found)
    assert chosen > 300


def test_with_the_k_of_eq_40_nobody_is_ever_chosen():
    for i, norms, N, _ in draws(900):
        assert sum(row(i, torch.tensor(norms), budget=100.0, localcol_k="eq40")) == 0
        for equal in (torch.full((N,), norms[0]), torch.full((N,), norms[0]).float()):
            assert sum(row(i, equal, budget=100.0, localcol_k="eq40")) == 0  # not by rounding either


# --- events

rng = np.random.default_rng(11)
FACTORS = rng.normal(size=(3, 4, 4))
A, B, W0 = FACTORS @ FACTORS.transpose(0, 2, 1) / 4 + np.eye(4), rng.normal(size=(3, 4)), rng.normal(size=4)
N, LR, SAMPLES = 3, 0.02, np.array([10.0, 20.0, 30.0])
PROBLEM = {"A": A, "b": B, "w0": W0, "lr": LR, "samples": SAMPLES}


def replay(turns, steps, low=0.1, high=10.0, compensated=False, budget=5.0, links=5.0):
    """Three devices of equal speed: in every turn all finish together, their mail goes out, then they are aggregated
    one by one and start again with what has been sent to them up to then."""
    D, share, w = SAMPLES.sum(), SAMPLES / SAMPLES.sum(), [W0]
    M, l, beta, t = np.zeros((N, N), bool), np.full(N, -1.0), np.full(N, -1.0), np.zeros(N)  # noqa: E741
    eta, clamps, applied = np.full(N, LR), [0, 0], []
    jobs = [{"w": W0, "eta": LR, "to": [], "mail": []} for _ in range(N)]
    before = [None] * N
    for _ in range(turns):
        boxes, done = [{} for _ in range(N)], []
        for i, job in enumerate(jobs):
            x, total, r = job["w"], 0, len(job["mail"])
            for _ in range(steps):
                g = A[i] @ x - B[i]
                total, x = total + g, x - job["eta"] * (g + sum(job["mail"])) / (r + 1)
            done.append((x - job["w"], total / steps))
            for j in job["to"]:
                boxes[j][i] = total / steps
        for i, (delta, g) in enumerate(done):
            w.append(w[-1] + share[i] * delta)
            applied.append(jobs[i]["eta"])
            t[i] += 1
            here, old = jobs[i]["w"], before[i]
            if old is not None:
                loss = [v @ A[i] @ v / 2 - B[i] @ v for v in (here, old)]
                l[i], beta[i] = np.linalg.norm(g), abs(loss[0] - loss[1]) / np.linalg.norm(here - old)
            before[i], rate = here, LR
            if min(l) >= 0 and min(beta) >= 0:
                load = M.sum(0) - M[i]
                M[i] = as_printed(i, l, budget, load, np.full(N, links), 0)
                those = l[[i, *np.flatnonzero(M[i])]]
                eps, x = N * those.sum() / (len(those) * l.sum()), N * (those**2).sum() / (len(those) * (l**2).sum())
                rate = eps * D / (SAMPLES[i] * beta.mean() * x)
                clamps[0] += rate < low * LR
                clamps[1] += rate > high * LR
                rate = np.clip(rate, low * LR, high * LR)
            eta[i] = rate / (N * t[i] / t.sum()) if compensated else rate
            jobs[i] = {"w": w[-1], "eta": eta[i], "to": np.flatnonzero(M[:, i]), "mail": list(boxes[i].values())}
    return np.array(w), {"l": l, "beta": beta, "M": M, "V": M.T, "eta": eta, "t": t}, clamps, np.mean(applied)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize(
    "fields", [{}, {"high": 1e9}, {"low": 2000, "high": 3000}, {"budget": 2.0}, {"links": 1.0, "high": 4}], ids=str
)
@pytest.mark.parametrize("name", ["fedlc", "sc_fedlc", "fedlc_t"])
def test_a_replay_of_equal_devices(name, fields, steps):
    names = {"low": "eta_min", "high": "eta_max", "budget": "compute_budget", "links": "link_budget"}
    turns = 4 if "low" in fields else 5 if "high" in fields else 9  # at rates that large numbers soon are none
    w, state, clamps, mean = replay(turns, steps, compensated=name == "sc_fedlc", **fields)
    own = {f"algo.{names[key]}": value for key, value in fields.items()}
    trace = quadratic(name, **PROBLEM, rounds=len(w) - 1, steps=steps, **own)
    assert np.abs(trace.w.numpy() / w - 1).max() < 1e-9
    for key, value in state.items():
        np.testing.assert_allclose(trace.server[key].numpy(), value, rtol=1e-9, err_msg=key)
    assert state["M"].any()
    row = trace.rows[-1]
    assert [row["clamped_low"], row["clamped_high"]] == clamps
    assert row["rate_mean"] == pytest.approx(mean, rel=1e-9)
    assert row["demands_mean"] == pytest.approx(state["M"].sum() / N)


def test_the_compensated_rate_applies_from_the_first_return():
    """Device 0 alone has come back: r = 1, so its rate is lr / N."""
    trace = quadratic("sc_fedlc", **PROBLEM, rounds=1, steps=1, seconds=[1, 2, 3])
    assert trace.server["eta"].tolist() == pytest.approx([LR / 3, LR, LR])


@dataclass(frozen=True, kw_only=True)
class PlainAsynchronous(Algorithm):
    """w <- w + (d_i/D) delta on every arrival. 2017."""

    def schedule(self, fed):
        return Schedule(fed.clients, 1)

    def aggregate(self, server, updates, fed):
        return {**server, "w": server["w"] + (updates.samples / fed.samples.sum()) @ updates.delta}


@pytest.mark.parametrize("alone", [{"compute_budget": 1.0}, {"link_budget": 0.0}, {"localcol_k": "eq40"}], ids=str)
def test_alone_and_at_the_runs_rate_it_is_plain_asynchronous_sgd(alone):
    keys = {**PROBLEM, "rounds": 30, "steps": 2, "seconds": [1, 1.7, 2.9]}
    trace = quadratic(FedLC(eta_min=1.0, eta_max=1.0, **alone), **keys)
    assert torch.equal(trace.w, quadratic(PlainAsynchronous(), **keys).w)
    assert not trace.server["M"].any() and trace.rows[-1]["clamped_low"] + trace.rows[-1]["clamped_high"] > 0


def federation(dtype=torch.float64):
    layout = Layout(Quadratic(torch.eye(2), torch.zeros(2), torch.zeros(2, dtype=dtype), 0))
    constants = {"rounds": 1, "epochs": 1, "lr": 0.1, "momentum": 0, "decay": 0}
    return Fed(clients=2, cohort=2, samples=torch.ones(2, dtype=dtype), layout=layout, **constants)


def uploaded(t_i, model, received, losses, gradient):
    fed, one = federation(), torch.ones(1, dtype=torch.float64)
    jobs = Jobs(
        client=torch.tensor([0]),
        version=torch.tensor([3]),
        start=received,
        received=received,
        samples=one,
        epochs=one.long(),
        steps_per_epoch=one.long(),
        server={},
        memory={"model": model, "loss": vector(losses[0]), "t": vector(t_i)},
    )
    ones = dict.fromkeys(("steps", "effective_steps", "lr_sum", "loss"), one)
    trained = Trained(
        end=received - 1, rates=one[:, None], mean_gradient=gradient, start_loss=vector(losses[1]), **ones
    )
    return FedLC().upload(jobs, trained, fed)


def test_what_a_device_measures():
    """l = |(3, 4)| = 5, beta = |7 - 2| / |(0, 2.5)| = 2, from the second dispatch on; standing still says nothing."""
    here, there, g = vector(1, 3).reshape(1, 2), vector(1, 0.5).reshape(1, 2), vector(3, 4).reshape(1, 2)
    found = uploaded(1, there, here, (7, 2), g)
    assert [found.extra["l"].item(), found.extra["beta"].item()] == [5, 2]
    assert torch.equal(found.gradient, g) and torch.equal(found.delta, -torch.ones(1, 2))
    assert torch.equal(found.memory["model"], here) and [found.memory["loss"].item(), found.memory["t"].item()] == [
        2,
        2,
    ]
    first = uploaded(0, there, here, (7, 2), g)
    assert [first.extra["l"].item(), first.extra["beta"].item()] == [-1, -1]
    still = uploaded(4, here, here, (2, 2), g)
    assert [still.extra["l"].item(), still.extra["beta"].item()] == [5, -1]


def test_a_device_that_stood_still_keeps_its_old_beta():
    fed, algo = federation(), FedLC(eta_max=1e6)
    server = {**algo.init_server(torch.zeros(2).double(), fed), "l": vector(1, 1), "beta": vector(3, 5)}
    updates = _one(fed, extra={"l": vector(1), "beta": vector(-1)})
    after = algo.aggregate(server, updates, fed)
    assert after["beta"].tolist() == [3, 5] and after["l"].tolist() == [1, 1]
    assert after["M"].tolist() == [[False, True], [False, False]] == after["V"].T.tolist()
    assert after["eta"].tolist() == pytest.approx([2 / 4, 0.1])  # eps = xi = 1, D/d_i = 2, beta = 4
    unheard = algo.aggregate({**server, "beta": vector(-1, 5)}, updates, fed)
    assert unheard["beta"].tolist() == [-1, 5] and not unheard["M"].any() and unheard["eta"].tolist() == [0.1, 0.1]


@pytest.mark.parametrize(("l", "beta"), [((0.0, 0.0), (1.0, 1.0)), ((0.0, 1.0), (1.0, 1.0)), ((1.0, 1.0), (0.0, 0.0))])
def test_a_vanishing_gradient_or_beta_meets_the_upper_clamp(l, beta):  # noqa: E741
    fed, algo = federation(), FedLC()
    server = {**algo.init_server(torch.zeros(2).double(), fed), "l": vector(*l), "beta": vector(*beta)}
    after = algo.aggregate(server, _one(fed, extra={"l": vector(l[0]), "beta": vector(beta[0])}), fed)
    assert after["eta"].tolist() == pytest.approx([1, 0.1]) and after["clamped"].tolist() == [0, 1]


def _one(fed, extra):
    one = torch.ones(1, dtype=torch.float64)
    names = (
        "version",
        "staleness",
        "samples",
        "count",
        "epochs",
        "steps",
        "effective_steps",
        "lr_sum",
        "loss",
        "weight",
    )
    nothing = torch.zeros(1, 2, dtype=torch.float64)
    return Updates(
        client=torch.tensor([0]),
        layers=fed.all_layers[None],
        received=nothing,
        delta=nothing,
        base=nothing,
        extra=extra,
        **dict.fromkeys(names, one),
    )


def test_variants_and_bad_values():
    assert FedLC_T.retransmit and not FedLC.retransmit and not SC_FedLC.retransmit
    with pytest.raises(ValueError, match="listing or eq40"):
        FedLC(localcol_k="eq42")
    with pytest.raises(ValueError, match="eta_min at most"):
        replace(SC_FedLC(), eta_min=20.0)

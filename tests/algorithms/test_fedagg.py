"""FedAgg in single precision, with many steps an epoch, interrupted; tests/oracle derives it."""

import pytest
import torch

from algorithms.fedagg import FedAgg
from algorithms.ops import tracking
from bench.prepare import compose
from bench.prepare.assemble import build
from bench.testing import quadratic


def test_single_precision_survives_parallel_gradients():
    w, first, *others = torch.randn(5, 1000, generator=torch.Generator().manual_seed(0))
    phi1 = 1000 * (first + 1e-4 * torch.stack(others))
    phi2 = torch.cat([w[None], w - 0.01 * phi1.cumsum(0)])
    single, double = (tracking(phi1.to(d), phi2.to(d), 0.1)(w.to(d)) for d in (torch.float32, torch.float64))
    torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=1e-7)


A = torch.tensor([[[2.0, 0.3], [0.3, 1.0]], [[1.0, 0.0], [0.0, 3.0]], [[0.5, 0.1], [0.1, 0.7]]], dtype=torch.float64)
B = torch.tensor([[1.0, -1.0], [0.5, 2.0], [-1.0, 0.3]], dtype=torch.float64)


def run(rounds=2, **keys):
    keys = {"lr": 0.1, "samples": [5, 2, 9], "steps": 2, **keys}
    return quadratic("fedagg", A, B, w0=[1.0, -2.0], rounds=rounds, **keys)


def test_round_zero_is_not_clamped_even_where_its_rate_is_a_bound():
    assert run(1, **{"algo.eta_max": 0.1, "algo.mean_field": "history"}).rows[0]["clamps"] == 0  # lr is 0.1


def test_fixed_point_stops_at_the_cap():
    trace = run(2, **{"algo.mean_field": "fixed_point", "algo.J": 3, "algo.epsilon": 1e-300})
    assert [row["gradient_evaluations"] for row in trace.rows] == [18, 36]


def parts(*overrides):
    small = ["dataset=digits", "clients=8", "cohort=3", "rounds=3", "epochs=2", "test_samples=64", "algo=fedagg"]
    return build(compose.config([*small, *overrides]))


def test_phi1_is_the_mean_of_the_sum_of_an_epochs_gradients():
    """By plain SGD all devices move by lr times it, however many steps they make: w_l - w_{l+1} = lr phi1_l."""
    loop = parts("batch_size=20", "lr=0.05", "algo.phi1=sum").loop
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
    loop.algo = loop.training.algo = Watched(update="aggregated")
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
    "fields",
    [{"mean_field": "none"}, {"phi1": "x"}, {"update": "x"}, {"eta_min": 0.5, "eta_max": 0.1}, {"eta_min": 0.0}],
)
def test_impossible_fields_are_refused(fields):
    with pytest.raises(ValueError, match=r"algo\."):
        FedAgg(**fields)

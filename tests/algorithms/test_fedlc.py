"""FedLC: the trap in its listing, what a device measures and what the server makes of it; tests/oracle derives it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from algorithms.base import Fed, Jobs, Trained, Updates
from algorithms.fedlc import FedLC
from algorithms.fedlc_variants import FedLC_T, SC_FedLC
from algorithms.localcol import demand_row
from bench.learning.flat import Layout
from bench.testing import Quadratic


def vector(*values):
    return torch.tensor(values, dtype=torch.float64)


FREE, FIVE = torch.zeros(40), torch.full((40,), 5.0)


def row(i, norms, budget=5.0, load=FREE, links=FIVE, **k):
    n = len(norms)
    return demand_row(i, norms, budget, load[:n], links[:n], **k).int().tolist()


def test_devices_are_taken_in_index_order_and_very_different_gradients_are_not():
    assert row(3, torch.full((8,), 0.3)) == [1, 1, 1, 0, 1, 0, 0, 0]
    assert row(0, vector(1, 1, 4, 1), budget=1.5) == [0, 1, 0, 0]
    # with 1 and 2 chosen, 0.1 is too small: 3.1^2 < 2 x 5.01; with 1, 2 and 1 chosen, 100 too large: 104^2 < 3 x 10006
    assert row(0, vector(1, 2, 0.1, 1, 100)) == [0, 1, 0, 1, 0]
    assert row(0, vector(1, 0, 1)) == [0, 0, 1]
    assert row(0, vector(0, 1, 1)) == [0, 0, 0] == row(1, vector(0, 0, 0))  # eps and xi are 0/0: nobody


def test_with_the_k_of_eq_40_nobody_is_ever_chosen():
    rng = np.random.default_rng(5)
    for N in rng.integers(2, 21, 900).tolist():
        i, norms = int(rng.integers(N)), rng.lognormal(0, rng.choice([0.1, 1, 3]), N)
        assert sum(row(i, torch.tensor(norms), budget=100.0, localcol_k="eq40")) == 0
        for equal in (torch.full((N,), norms[0]), torch.full((N,), norms[0]).float()):
            assert sum(row(i, equal, budget=100.0, localcol_k="eq40")) == 0  # not by rounding either


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
    names = [
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
    ]
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
    with pytest.raises(ValueError, match=r"algo\.eta_min=20\.0 is above algo\.eta_max=10\.0"):
        replace(SC_FedLC(), eta_min=20.0)
    with pytest.raises(ValueError, match="step or dispatch, not 'epoch'"):
        FedLC(eta_of="epoch")
    assert FedLC_T(eta_min=20.0, eta_max=None).eta_min == 20.0

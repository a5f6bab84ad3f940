"""The one local step, each term against torch's own SGD or a closed form."""

import numpy as np
import pytest
import torch

from algorithms.base import LocalRule
from bench.engine import kernel
from bench.engine.kernel import EffectiveSteps, Terms

W = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
G = torch.tensor([0.5, 0.25, -1.0], dtype=torch.float64)
RECEIVED = torch.tensor([0.0, 1.0, 1.0], dtype=torch.float64)


def terms(**changes) -> Terms:
    plain = {"lr": 0.1, "scale": 1.0, "prox": 0.0, "drift": None, "mask": None, "sam": 0.0}
    return Terms(**{**plain, **changes})


def one_step(momentum=0.0, decay=0.0, m=None, **changes) -> torch.Tensor:
    w = W.clone()
    kernel.step([w], [G.clone()], None if m is None else [m], [RECEIVED], terms(**changes), momentum, decay)
    return w


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_momentum_and_decay_are_those_of_torchs_sgd(momentum, decay):
    p = torch.nn.Parameter(W.clone())
    optimiser = torch.optim.SGD([p], lr=0.1, momentum=momentum, weight_decay=decay)
    w, m = W.clone(), torch.zeros_like(W)
    for k in range(4):
        g = G * (k + 1)
        p.grad = g.clone()
        optimiser.step()
        kernel.step([w], [g.clone()], [m] if momentum else None, [RECEIVED], terms(), momentum, decay)
    torch.testing.assert_close(w, p.detach(), rtol=0, atol=1e-15)


def test_every_term_enters_as_the_rule_says():
    drift, mask = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    m = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    moved = one_step(momentum=0.5, decay=0.01, m=m.clone(), scale=0.25, prox=2.0, drift=[drift], mask=[mask])
    by_hand = W - 0.1 * mask * (0.25 * (0.5 * m + G + 0.01 * W) + 2.0 * (W - RECEIVED) + drift)
    torch.testing.assert_close(moved, by_hand, rtol=0, atol=1e-15)
    assert moved[2] == W[2]


def test_momentum_holds_the_raw_gradient_whatever_the_other_terms():
    m = torch.zeros_like(W)
    one_step(momentum=0.5, m=m, scale=0.25, prox=2.0)
    torch.testing.assert_close(m, G, rtol=0, atol=0)


def test_cutting_the_vector_changes_nothing():
    whole = one_step(prox=0.3, scale=0.7)
    w = W.clone()
    kernel.step(
        list(w.split([1, 2])),
        list(G.clone().split([1, 2])),
        None,
        list(RECEIVED.split([1, 2])),
        terms(prox=0.3, scale=0.7),
        0,
        0,
    )
    assert torch.equal(w, whole)


def test_sam_climbs_by_its_radius_along_the_gradient_of_all_parameters():
    w = W.clone()
    kernel.climb(list(w.split([1, 2])), list(G.split([1, 2])), 0.3)
    torch.testing.assert_close(w, W + 0.3 * G / G.norm(), rtol=0, atol=1e-15)


def test_sam_does_not_move_on_a_zero_gradient():
    w = W.clone()
    kernel.climb([w], [torch.zeros_like(W)], 0.3)
    assert torch.equal(w, W)


def test_terms_that_are_zero_are_absent():
    rule = LocalRule(drift=torch.zeros(2, 3), mask=torch.ones(3, dtype=torch.bool))
    found = kernel.terms(rule, 0, 0.1, torch.float32, lambda flat: [flat])
    assert found == terms()


def test_terms_take_the_devices_own_row():
    rule = LocalRule(
        lr=torch.tensor([0.5, 0.25]),
        scale=torch.tensor([1.0, 2.0]),
        prox=torch.tensor([0.0, 4.0]),
        drift=torch.tensor([[0.0, 0.0], [1.0, 2.0]]),
    )
    first, second = (kernel.terms(rule, k, 0.1, torch.float32, lambda flat: [flat]) for k in (0, 1))
    assert (first.lr, first.scale, first.prox, first.drift) == (0.5, 1.0, 0.0, None)
    assert (second.lr, second.scale, second.prox) == (0.25, 2.0, 4.0)
    assert second.drift is not None
    assert second.drift[0].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(("momentum", "prox"), [(0.0, 0.0), (0.9, 0.0), (0.0, 0.5), (0.9, 0.5)])
def test_units_are_the_weights_of_the_gradients_in_the_update(momentum, prox):
    """With g = 1 in every step the update is -lr * |a|_1, so |a|_1 can be read off the kernel itself."""
    w, m, received = torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64), torch.zeros(1)
    effective, t = EffectiveSteps(2, momentum), terms(prox=prox)
    for _ in range(7):
        kernel.step([w], [torch.ones(1, dtype=torch.float64)], [m] if momentum else None, [received], t, momentum, 0)
        effective.add([1], np.array([1]), np.array([t.lr * t.prox]))
    effective.add([0], np.array([7]), np.array([t.lr * t.prox]))  # all at once
    assert effective.total == pytest.approx([float(-w / t.lr)] * 2, abs=1e-12)
    if momentum and not prox:
        closed = (7 - momentum * (1 - momentum**7) / (1 - momentum)) / (1 - momentum)
        assert effective.total == pytest.approx([closed] * 2, abs=1e-12)

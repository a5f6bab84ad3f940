import pytest
import torch

from algorithms.fedbabu import FedBABU
from bench.prepare import compose
from bench.prepare.assemble import build
from bench.testing import quadratic


def parts(*overrides):
    small = ["dataset=digits", "clients=8", "cohort=3", "rounds=3", "test_samples=64", "algo=fedbabu"]
    return build(compose.config([*small, *overrides]))


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_the_head_never_changes_bit_for_bit(decay):
    loop = parts(f"weight_decay={decay}", "momentum=0.9").loop
    before, head = loop.server["w"], loop.fed.layout.expand(loop.fed.layout.head)
    while not loop.finished:
        loop.advance()
    assert torch.equal(loop.server["w"][head], before[head])
    assert not (loop.server["w"] == before)[~head].all()
    assert loop.traffic.up == 3 * 3 * 4 * int((~head).sum())


def test_the_body_is_trained_as_with_a_frozen_head():
    """Losses (u + v)^2/2 - i (u + v) with head v = 5: the body's gradient is u + 5 - i."""
    A, b = torch.ones(2, 2, 2), torch.tensor([[1.0, 1.0], [2.0, 2.0]])
    trace = quadratic("fedbabu", A, b, w0=[0.0, 5.0], lr=0.1, rounds=1, samples=[1, 1], steps=1, deep=1)
    assert trace.w[1].tolist() == [pytest.approx(-0.1 * (4 + 3) / 2), 5.0]


def test_personal_models_are_fine_tuned_on_the_head_alone():
    loop = parts().loop
    rule, epochs = FedBABU(tau_f=3).personal_rule(loop.fed)
    assert epochs == 3
    assert torch.equal(rule.mask, loop.fed.layout.expand(loop.fed.layout.head))


def test_a_model_without_a_body_is_refused():
    with pytest.raises(ValueError, match="needs one with layers before its head"):
        parts("model=linear")

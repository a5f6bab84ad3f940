import pytest
import torch

from algorithms.fedbabu import FedBABU
from bench.prepare import compose
from bench.prepare.assemble import build


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


def test_personal_models_are_fine_tuned_on_the_head_alone():
    loop = parts().loop
    rule, epochs = FedBABU(tau_f=3).personal_rule(loop.fed)
    assert epochs == 3
    assert torch.equal(rule.mask, loop.fed.layout.expand(loop.fed.layout.head))


def test_a_model_without_a_body_is_refused():
    with pytest.raises(ValueError, match="needs one with layers before its head"):
        parts("model=linear")

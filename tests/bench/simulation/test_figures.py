"""Personal accuracies: on the classes a device holds and on all, before and after fine-tuning."""

import pytest
import torch

from bench.prepare import compose
from bench.prepare.assemble import build


def parts(*keys):
    small = ["dataset=digits", "clients=12", "cohort=6", "rounds=3", "partition=classes", "partition.per_client=3"]
    built = build(compose.config([*small, *keys]))
    while not built.loop.finished:
        built.loop.advance()
    return built


def test_a_method_without_personal_models_has_the_test_figures_only():
    assert parts("algo=fedavg").evaluate(True).keys() == {"test_loss", "test_accuracy"}


def test_fedbabus_heads_are_tuned_on_the_devices_own_classes():
    built = parts("algo=fedbabu")
    figures = built.evaluate(True)
    assert set(figures) == set(built.evaluate.names)
    assert figures["personal_all"] == pytest.approx(figures["test_accuracy"])
    assert figures["personal_own_tuned"] > figures["personal_own"] + 0.1
    assert figures["personal_all_tuned"] < 0.5  # three of ten classes are all such a head knows


def test_fine_tuning_moves_the_head_alone_and_leaves_the_deployed_model():
    built = parts("algo=fedbabu")
    loop = built.loop
    w = loop.deployed().clone()
    tuned = loop.engine.tune(loop.fed, loop.deployed(), 0, *loop.algo.personal_rule(loop.fed))
    body = loop.engine.layout.part("body")
    assert torch.equal(tuned[body], w[body])
    assert not torch.equal(tuned[~body], w[~body])
    assert torch.equal(loop.deployed(), w)


def test_fedgh_is_tested_on_ten_devices_while_it_runs_and_on_all_at_the_end():
    built = parts("algo=fedgh")
    deployed, y = built.loop.deployed(), built.evaluate.evaluate.y
    assert deployed.shape[0] == 12
    own = []
    for device in range(12):
        held = torch.isin(y, built.loop.engine.batches.labels(device))
        own.append(float(built.evaluate.evaluate.answers(deployed[device])[1][held].double().mean()))
    assert built.evaluate(True)["personal_own"] == pytest.approx(sum(own) / 12)
    watched = built.evaluate.watched
    assert len(watched) == 10
    assert built.evaluate(False)["personal_own"] == pytest.approx(sum(own[d] for d in watched) / 10)

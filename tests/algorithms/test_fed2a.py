"""Fed2A's formulas by hand, and its weights on made-up outputs."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from algorithms.base import Fed, Updates
from algorithms.fed2a import Fed2A, consistency, rdm, time_weights
from bench.learning.flat import Layout
from bench.prepare import compose
from bench.prepare.assemble import build
from bench.testing import Quadratic


def vector(*values):
    return torch.tensor(values, dtype=torch.float64)


def symmetric(a, b, c):
    return vector(0, a, b, a, 0, c, b, c, 0).reshape(3, 3)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("inv", [10 / 30, 15 / 30, 5 / 30]),  # 10 x 1, 30 x 1/2, 20 x 1/4
        ("exp", [10, 30 / (math.e / 2), 20 / (math.e / 2) ** 3]),
        ("log", [10, 30 / (math.log(2) + 1), 20 / (math.log(4) + 1)]),
        ("none", [10 / 60, 30 / 60, 20 / 60]),
    ],
)
def test_fresher_and_larger_updates_weigh_more(kind, expected):
    """Eq. (4) with n = 10, 30, 20 and t - t_k = 0, 1, 3; whole numbers are no reason to lose digits."""
    for n in (vector(10, 30, 20), torch.tensor([10, 30, 20])):
        found = time_weights(n, torch.tensor([0, 1, 3]), kind)
        assert found.tolist() == pytest.approx((np.array(expected) / sum(expected)).tolist(), abs=1e-14)
        assert float(found.sum()) == pytest.approx(1, abs=1e-14)


def test_a_dead_stimulus_is_at_cosine_zero_to_all_others():
    assert rdm(torch.tensor([[0.0, 0.0], [1.0, 1.0]]), "cosine")[0, 1] == 1


def test_consistency_is_a_squared_correlation():
    """Upper triangles (1, 3, 2) and (2, 3, 1): deviations (-1, 1, 0) and (0, 1, -1), rho = 1/2, rc = 1/4."""
    u = symmetric(1, 3, 2)
    assert float(consistency(u, symmetric(2, 3, 1))) == pytest.approx(0.25, abs=1e-15)
    assert float(consistency(u, u)) == pytest.approx(1, abs=1e-15)
    assert float(consistency(u, 7 - 2 * u)) == pytest.approx(1, abs=1e-15)  # so 1 - cosine or cosine is all one
    assert float(consistency(u, symmetric(4, 4, 4))) == float(consistency(symmetric(4, 4, 4), u)) == 0


@pytest.mark.parametrize("distance", ["cosine", "correlation", "euclidean"])
def test_batches_of_clients_are_as_one_by_one_and_as_numpy(distance):
    outputs = torch.randn(5, 12, 7, generator=torch.Generator().manual_seed(0))
    together = rdm(outputs, distance)
    rc = consistency(together[:1], together[1:])
    i, j = np.triu_indices(12, 1)
    assert len(i) == 12 * 11 // 2
    for k in range(4):
        one = consistency(rdm(outputs[0], distance), rdm(outputs[k + 1], distance))
        expected = np.corrcoef(together[0].numpy()[i, j], together[k + 1].numpy()[i, j])[0, 1] ** 2
        assert float(rc[k]) == pytest.approx(float(one), abs=1e-13) == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("distance", ["cosine", "correlation", "euclidean"])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_a_layer_that_answers_everything_alike_has_no_consistency(distance, value):
    """Its distances are all the same but for rounding, and rounding must not be correlated with anything."""
    alike = torch.full((10, 3), value) * torch.tensor([1.0, 2.0, 0.7])
    other = torch.randn(10, 3, generator=torch.Generator().manual_seed(1))
    assert float(consistency(rdm(other, distance), rdm(alike, distance))) == 0


# --- the weights of a buffer: devices A, B, C, layers shallow (coordinates 0, 1) and deep (2)

LINES = {  # outputs on three stimuli; distances (1, 3, 2), (2, 3, 1), all equal
    "global": [[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]],
    "quarter": [[0.0, 0.0], [2.0, 0.0], [3.0, 0.0]],
    "constant": [[0.0, 0.0], [1.0, 0.0], [0.5, 0.75**0.5]],
}
LAYOUT = Layout(Quadratic(torch.eye(3), torch.zeros(3), vector(0, 0, 0), 1))
GLOBAL = vector(100, 200, 300)
MODELS = vector(1, 2, 3, 10, 20, 30, 100, 100, 100).reshape(3, 3)


def federation(*layers):
    def layer_outputs(models, stimuli):
        assert len(models) == 4 and torch.equal(models[0], GLOBAL) and stimuli == "train"
        return [torch.tensor([LINES[name] for name in ("global", *layer)], dtype=torch.float64) for layer in layers]

    constants = {"rounds": 1, "epochs": 1, "lr": 0.1, "momentum": 0, "decay": 0}
    return Fed(clients=3, cohort=3, samples=vector(1, 2, 5), layout=LAYOUT, layer_outputs=layer_outputs, **constants)


def buffer(sent=((1, 1), (1, 1), (1, 1)), staleness=(0, 1, 3)):
    layers = torch.tensor(sent, dtype=torch.bool)
    there, one = LAYOUT.expand(layers), torch.ones(3, dtype=torch.float64)
    same = dict.fromkeys(("version", "count", "epochs", "steps", "effective_steps", "lr_sum", "loss"), one)
    model = torch.where(there, MODELS, GLOBAL)
    return Updates(
        client=torch.arange(3),
        staleness=vector(*staleness),
        samples=vector(1, 2, 5),
        layers=layers,
        received=GLOBAL.expand(3, 3),
        delta=model - GLOBAL,
        base=GLOBAL.expand(3, 3),
        weight=vector(1, 2, 5) / 8,
        **same,
    )


def weights(algo, updates, *layers):
    found = algo.weights(GLOBAL, updates, federation(*layers))
    assert found.sum(0).tolist() == pytest.approx(updates.layers.any(0).to(found.dtype).tolist(), abs=1e-15)
    after = algo.aggregate({"w": GLOBAL}, updates, federation(*layers))["w"]
    expected = (LAYOUT.expand(found) * updates.model).sum(0)
    kept = ~LAYOUT.expand(updates.layers.any(0))
    torch.testing.assert_close(after, torch.where(kept, GLOBAL, expected), atol=1e-12, rtol=0)
    return found.T.tolist()


FULL = Fed2A(distance="euclidean")
SHALLOW, DEEP = ("global", "quarter", "constant"), ("quarter", "global", "global")


def normal(*values):
    return pytest.approx([v / sum(values) for v in values], abs=1e-14)


def test_together_the_weights_are_time_weight_times_consistency():
    """TW ~ 1 x 1, 2 x 1/2, 5 x 1/4; rc of the shallow layer 1, 1/4, 0, of the deep one 1/4, 1, 1."""
    shallow, deep = weights(FULL, buffer(), SHALLOW, DEEP)
    assert shallow == normal(1, 0.25, 0)
    assert deep == normal(0.25, 1, 1.25)


def test_consistency_alone_does_not_look_at_sizes():
    shallow, deep = weights(replace(FULL, tvw="none"), buffer(), SHALLOW, DEEP)
    assert shallow == normal(1, 0.25, 0)
    assert deep == normal(0.25, 1, 1)


def test_time_alone_and_nothing_alone_do_not_look_at_outputs():
    assert weights(replace(FULL, rce=False), buffer()) == [normal(1, 1, 1.25)] * 2
    assert weights(replace(FULL, rce=False, tvw="none"), buffer()) == [normal(1, 2, 5)] * 2


def test_without_any_consistency_a_layer_falls_back_to_the_other_weight():
    shallow, deep = weights(FULL, buffer(), ("constant",) * 3, DEEP)
    assert shallow == normal(1, 1, 1.25) and deep == normal(0.25, 1, 1.25)
    assert weights(replace(FULL, tvw="none"), buffer(), ("constant",) * 3, DEEP)[0] == normal(1, 2, 5)


def test_who_did_not_send_a_layer_does_not_weigh_in_it():
    shallow, deep = weights(FULL, buffer(((1, 1), (1, 0), (1, 1))), SHALLOW, DEEP)
    assert shallow == normal(1, 0.25, 0) and deep == normal(0.25, 0, 1.25)
    fallen, _ = weights(FULL, buffer(((0, 1), (0, 1), (1, 1))), SHALLOW, DEEP)
    assert fallen == normal(0, 0, 1)  # its rc is 0, and the others' do not count


def test_a_layer_that_nobody_sent_keeps_its_value():
    after = FULL.aggregate({"w": GLOBAL}, buffer(((1, 0), (1, 0), (1, 0))), federation(SHALLOW, DEEP))["w"]
    assert after.tolist() == pytest.approx([(1 + 0.25 * 10) / 1.25, (2 + 0.25 * 20) / 1.25, 300])


def test_the_real_outputs_give_weights_that_sum_to_one():
    small = ["dataset=digits", "clients=8", "cohort=3", "rounds=2", "epochs=1", "test_samples=64", "algo=fed2a"]
    for own in (["algo.stimuli=test", "algo.distance=correlation"], ["aggregation=cached", "algo.tvw=none"]):
        loop, seen = build(compose.config([*small, *own])).loop, []

        class Watched(Fed2A):
            def weights(self, w, updates, fed, seen=seen):
                seen.append((super().weights(w, updates, fed), updates))
                return seen[-1][0]

        loop.algo = loop.training.algo = Watched(**vars(loop.algo.method))
        while not loop.finished:
            loop.advance()
        for found, updates in seen:
            assert len(found) == (8 if "aggregation=cached" in own else 3)
            torch.testing.assert_close(found.sum(0), torch.ones(2))
            assert (found > 0).all() and not torch.allclose(found[:, 0], updates.weight)


def test_bad_values_get_a_sentence():
    with pytest.raises(ValueError, match=r"algo\.tvw is exp, inv, log or none, not 'linear'"):
        Fed2A(tvw="linear")
    with pytest.raises(ValueError, match=r"algo\.D=11 of the algo\.P=10"):
        Fed2A(D=11)
    for field, values in {
        "plu": "download or upload",
        "t_k": "download or upload",
        "unsent": "replaced or kept",
    }.items():
        with pytest.raises(ValueError, match=rf"algo\.{field} is {values}, not 'x'"):
            Fed2A(**{field: "x"})

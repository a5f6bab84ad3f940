"""Fed2A's formulas by hand, its weights on made-up outputs, and the limit in which it is FedAvg."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from algorithms.base import Fed, Updates
from algorithms.fed2a import Fed2A, consistency, plu_sends_deep, rdm, time_weights
from bench.learning.flat import Layout
from bench.prepare import compose
from bench.prepare.assemble import build
from bench.testing import Quadratic, quadratic


def vector(*values):
    return torch.tensor(values, dtype=torch.float64)


def symmetric(a, b, c):
    return vector(0, a, b, a, 0, c, b, c, 0).reshape(3, 3)


@pytest.mark.parametrize(
    ("P", "D", "silent"),
    [(10, 8, {10, 11, 20, 21}), (10, 10, set()), (5, 1, {5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 20, 21})],
)
def test_deep_layers_travel_in_the_first_period_and_in_the_last_rounds_of_each_other_one(P, D, silent):
    assert {t for t in range(22) if not plu_sends_deep(t, P, D)} == silent


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


def test_distances_worked_out_by_hand_come_out():
    rows = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
    half = 1 - math.sqrt(0.5)
    torch.testing.assert_close(rdm(rows, "cosine"), symmetric(1, half, half), atol=1e-15, rtol=0)
    torch.testing.assert_close(rdm(rows, "euclidean"), symmetric(5**0.5, 13**0.5, 10**0.5), atol=1e-15, rtol=0)
    up_up_down = torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, 2.0, 1.0]])
    torch.testing.assert_close(rdm(up_up_down, "correlation"), symmetric(0, 2, 2), atol=1e-15, rtol=0)


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

        loop.algo = Watched(**vars(loop.algo))
        while not loop.finished:
            loop.advance()
        for found, updates in seen:
            assert len(found) == (8 if "aggregation=cached" in own else 3)
            torch.testing.assert_close(found.sum(0), torch.ones(2))
            assert (found > 0).all() and not torch.allclose(found[:, 0], updates.weight)


# --- through the loop, on quadratics

Q = {"A": np.stack([np.eye(2)] * 2), "b": np.array([[2.0, 4.0], [-2.0, 8.0]]), "w0": [0.0, 0.0], "lr": 0.5}


def test_partial_uploads_by_hand():
    """One step makes (w + b_i)/2 of w; K = 1, so that each arrival is the new model in the layers it holds. P = 2,
    D = 1: version 2 is the first whose holder keeps its deep layer (here the second coordinate)."""
    keys = {"algo.K": 1, "algo.P": 2, "algo.D": 1, "algo.rce": False}
    trace = quadratic("fed2a", **Q, rounds=5, samples=[1, 3], steps=1, seconds=[1, 1.5], deep=1, **keys)
    # at 1 device 0 with version 0; at 1.5 device 1 with 0; at 2 device 0 with 1; at 3 device 0 with 3, device 1 with 2
    expected = [[0, 0], [1, 2], [-1, 4], [1.5, 3], [1.75, 3.5], [(-1 - 2) / 2, 3.5]]
    torch.testing.assert_close(trace.w, torch.tensor(expected, dtype=torch.float64))


def test_a_late_device_by_hand():
    """K = 2 of three devices with n = 1, 1, 2 and 1, 1, 3 seconds. Devices 0 and 1 meet three times; then device 2,
    three versions late, meets device 0, which is fresh: weights 1 x 1 and 2 x 1/4."""
    A, b = np.ones((3, 1, 1)), np.array([[1.0], [3.0], [9.0]])
    keys = {"algo.K": 2, "algo.rce": False}
    trace = quadratic("fed2a", A, b, w0=[0.0], lr=0.5, rounds=4, samples=[1, 1, 2], steps=1, seconds=[1, 1, 3], **keys)
    w = [0.0]
    for _ in range(3):
        w.append(((w[-1] + 1) / 2 + (w[-1] + 3) / 2) / 2)
    w.append((1 * (w[3] + 1) / 2 + 0.5 * (0 + 9) / 2) / 1.5)
    assert trace.w[:, 0].tolist() == pytest.approx(w, abs=1e-14)


@pytest.mark.parametrize("samples", [[4, 4, 4], [1, 2, 5]])
@pytest.mark.parametrize("tvw", ["exp", "inv", "log", "none"])
def test_fresh_and_whole_it_is_fedavg(tvw, samples):
    rng = np.random.default_rng(3)
    factors = rng.normal(size=(3, 4, 4))
    problem = {"A": factors @ factors.transpose(0, 2, 1), "b": rng.normal(size=(3, 4)), "w0": rng.normal(size=4)}
    keys = {"lr": 0.02, "rounds": 25, "samples": samples, "steps": 3, "deep": 2}
    own = {"algo.tvw": tvw, "algo.rce": False, "algo.P": 10, "algo.D": 10, "seconds": [1, 2, 3]}
    torch.testing.assert_close(quadratic("fed2a", **problem, **keys, **own).w, quadratic("fedavg", **problem, **keys).w)


def test_bad_values_get_a_sentence():
    with pytest.raises(ValueError, match=r"algo\.tvw is exp, inv, log or none, not 'linear'"):
        Fed2A(tvw="linear")
    with pytest.raises(ValueError, match=r"algo\.D=11 of the algo\.P=10"):
        Fed2A(D=11)

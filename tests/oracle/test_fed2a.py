"""Fed2A (Liu et al., 2022) on quadratics: PLU by the version downloaded, TVW over the senders of each layer; RCE on a
network of two layers written here in numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist, squareform
from scipy.stats import pearsonr

from algorithms.base import Fed, Updates
from algorithms.fed2a import Fed2A, consistency, plu_sends_deep, rdm, time_weights

from .problem import Problem, agree, arrivals, make

F = {
    "exp": lambda d: (math.e / 2) ** -d,
    "inv": lambda d: 1 / (d + 1),
    "log": lambda d: 1 / (math.log(d + 1) + 1),
    "none": lambda d: 1.0,
}


def deep_rounds(rounds: int, P: int, D: int) -> set[int]:
    """Cut 0..rounds-1 into periods of P; the whole first one, then the last D rounds of each."""
    periods = [list(range(start, start + P)) for start in range(0, rounds, P)]
    return set(periods[0]) | {t for period in periods for t in period[P - D :]}


def derive(
    q: Problem, seconds: np.ndarray, *, K: int, deep: int, P: int = 10, D: int = 8, tvw: str = "inv", **terms: float
) -> tuple[np.ndarray, set[int]]:
    """The models, and how many of a buffer sent the deep layer."""
    w, sent = [q.w0], deep_rounds(q.rounds + P, P, D)
    senders = set()
    for t, batch in enumerate(arrivals(seconds, q.clients, q.rounds, K)):
        end = {i: q.end(i, w[v], q.steps[v, i], **terms) for i, v in batch}
        raw = {i: q.samples[i] * F[tvw](t - v) for i, v in batch}
        some = [i for i, v in batch if v in sent]
        senders.add(len(some))
        new = w[t].copy()
        new[:-deep] = sum(raw[i] * end[i][:-deep] for i in end) / sum(raw.values())
        if some:
            new[-deep:] = sum(raw[i] * end[i][-deep:] for i in some) / sum(raw[i] for i in some)
        w.append(new)
    return np.array(w), senders


def compare(q: Problem, seconds: np.ndarray, *, deep: int, **fields: Any) -> set[int]:
    keys = {key: fields.pop(key) for key in ("momentum", "decay") if key in fields}
    expected, senders = derive(q, seconds, deep=deep, **fields, **keys)
    named = {f"algo.{name}": value for name, value in fields.items()} | {"algo.rce": False}
    if "decay" in keys:
        keys["weight_decay"] = keys.pop("decay")
    trace = q.run("fed2a", seconds=seconds, deep=deep, **named, **keys)
    agree(trace.w, expected)
    agree(trace.server["w"], expected[-1])
    return senders


def uneven(seed: int, clients: int) -> np.ndarray:
    seconds = np.random.default_rng(seed).uniform(0.5, 2.0, clients)
    seconds[seed % clients] *= 4
    return seconds


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("tvw", ["exp", "inv", "log", "none"])
@pytest.mark.parametrize(("P", "D", "deep"), [(4, 1, 1), (4, 2, 3), (5, 5, 2), (3, 1, 2)])
def test_plu_and_tvw_follow_the_derivation(seed: int, tvw: str, P: int, D: int, deep: int) -> None:
    """Buffer of K = 3 of 5 devices; device k downloaded version v_k and holds w_k = its steps from w_{v_k}. In layer l,
    over the devices that sent it (deep: v_k < P or v_k mod P >= P - D):
    w_{t+1}^l = sum n_k f(t - v_k) w_k^l / sum n_k f(t - v_k)  (n_t and f(t) of Eq. 4 cancel); nobody sent: w_t^l.
    f: (e/2)^-d, 1/(d + 1), 1/(ln(d + 1) + 1), and 1 for PLU alone."""
    q = make(230 + seed, rounds=24)
    senders = compare(q, uneven(230 + seed, q.clients), K=3, P=P, D=D, tvw=tvw, deep=deep)
    assert 3 in senders and (P == D or 0 in senders), "a layer that nobody sent must occur"
    assert P == D or senders & {1, 2}, "a layer that some sent must occur"


@pytest.mark.parametrize("seed", range(4))
def test_ties_and_seconds_by_version(seed: int) -> None:
    q = make(232 + seed, clients=6, size=5, rounds=30)
    seconds = np.random.default_rng(seed).integers(1, 5, (q.rounds, q.clients)) / 4
    for K in (1, 2, 4):
        compare(q, seconds, K=K, P=5, D=2, tvw="exp", deep=2)


def test_the_defaults_are_those_of_the_derivation() -> None:
    """P = 10, D = 8, TVW-inv; K is the cohort: with all in it everything is fresh, so only n_k and PLU's clock count:
    versions 10, 11 and 20, 21 leave the deep layer as it was."""
    q = make(236, rounds=24)
    seconds = uneven(236, q.clients)
    expected, senders = derive(q, seconds, K=5, deep=2)
    trace = q.run("fed2a", seconds=seconds, deep=2, **{"algo.rce": False})
    agree(trace.w, expected)
    assert senders == {0, 5}
    still = [t for t in range(24) if np.array_equal(expected[t + 1, -2:], expected[t, -2:])]
    assert still == [10, 11, 20, 21]
    three, _ = derive(q, seconds, K=3, deep=2)
    agree(q.run("fed2a", seconds=seconds, deep=2, cohort=3, **{"algo.rce": False}).w, three)


def test_momentum_and_decay_follow_the_derivation() -> None:
    q = make(237, rounds=20)
    compare(q, uneven(237, 5), K=2, P=4, D=1, tvw="log", deep=2, momentum=0.5, decay=0.1)


def test_cached_aggregation_averages_everybodys_last_model() -> None:
    """aggregation=cached, PLU and TVW off: w_{t+1} = sum over all N of n_k (last model of k) / n; w_0 for those never
    heard of."""
    q = make(239, rounds=14)
    seconds = uneven(239, 5)
    last, w = np.tile(q.w0, (5, 1)), [q.w0]
    for batch in arrivals(seconds, q.clients, q.rounds, 2):
        for i, v in batch:
            last[i] = q.end(i, w[v], q.steps[v, i])
        w.append(q.samples @ last / q.samples.sum())
    keys = {"algo.K": 2, "algo.P": 4, "algo.D": 4, "algo.tvw": "none", "algo.rce": False, "deep": 2}
    agree(q.run("fed2a", seconds=seconds, aggregation="cached", **keys).w, w)


def test_plu_sends_the_deep_layers_in_the_first_period_and_at_the_end_of_each() -> None:
    for P in range(1, 11):
        for D in range(1, P + 1):
            sent = deep_rounds(4 * P, P, D)
            assert [bool(plu_sends_deep(t, P, D)) for t in range(4 * P)] == [t in sent for t in range(4 * P)]
    by_hand = [plu_sends_deep(t, 10, 8) for t in (0, 1, 9, 10, 11, 12, 19, 20, 21, 22)]
    assert by_hand == [True, True, True, False, False, True, True, False, False, True]


@pytest.mark.parametrize("kind", ["exp", "inv", "log"])
def test_time_weights_are_those_of_eq_4(kind: str) -> None:
    """TW_k = (n_k / n_t) f(t, k) / f(t), divided by their sum (Eq. 4), as it stands."""
    rng = np.random.default_rng(7)
    for _ in range(20):
        K = rng.integers(1, 8)
        n, late = rng.integers(1, 100, K).astype(float), rng.integers(0, 12, K)
        f = np.array([F[kind](d) for d in late])
        TW = n / n.sum() * f / f.sum()
        got = time_weights(torch.from_numpy(n), torch.from_numpy(late.astype(float)), kind)
        agree(got, TW / TW.sum(), 1e-14)
    two = time_weights(torch.tensor([1.0, 3.0]).double(), torch.tensor([0.0, 1.0]).double(), kind)
    half = {"exp": 2 / math.e, "inv": 0.5, "log": 1 / (math.log(2) + 1)}[kind]
    agree(two, [1 / (1 + 3 * half), 3 * half / (1 + 3 * half)], 1e-15)


@pytest.mark.parametrize("distance", ["cosine", "correlation", "euclidean"])
def test_distances_and_consistency_are_those_of_eqs_6_to_10(distance: str) -> None:
    """Against scipy: pairwise distances (Eq. 8 prints the similarity; we take 1 - it, which Eq. 10 does not see), and
    the squared Pearson correlation of the m (m - 1) / 2 entries above the diagonal."""
    rng = np.random.default_rng(8)
    for m, d in ((3, 2 if distance != "correlation" else 3), (10, 4), (50, 20)):
        one, two = rng.normal(size=(2, m, d)) + 0.3
        got = [rdm(torch.from_numpy(x), distance) for x in (one, two)]
        for x, matrix in zip((one, two), got, strict=True):
            agree(matrix, squareform(pdist(x, distance)), 1e-7 if distance == "euclidean" else 1e-12)
        expected = pearsonr(pdist(one, distance), pdist(two, distance)).statistic ** 2
        agree(consistency(*got), expected, 1e-9)
        agree(consistency(got[0], got[0]), 1.0, 1e-12)
    upper = np.triu_indices(50, 1)
    assert len(upper[0]) == 1225
    a, b = (matrix.numpy().copy() for matrix in got)
    a[np.tril_indices(50)] = 99.0  # neither the diagonal nor what is below it counts
    agree(consistency(torch.from_numpy(a), torch.from_numpy(b)), np.corrcoef(a[upper], b[upper])[0, 1] ** 2, 1e-12)


@pytest.mark.parametrize("distance", ["cosine", "correlation", "euclidean"])
def test_a_constant_rdm_has_no_consistency(distance: str) -> None:
    """All stimuli alike: every distance 0. Outputs that are zero (a dead ReLU) must not make NaN."""
    rng = np.random.default_rng(9)
    alike = rdm(torch.from_numpy(np.tile([0.1, 0.7, 0.35], (6, 1))), distance)
    other = rdm(torch.from_numpy(rng.normal(size=(6, 3))), distance)
    agree(consistency(torch.full((6, 6), 0.3).double(), other), 0.0, 1e-15)
    agree(consistency(alike, other), 0.0, 1e-12)
    agree(consistency(other, alike), 0.0, 1e-12)
    dead = rng.uniform(size=(6, 3))
    dead[2] = 0.0
    value = float(consistency(rdm(torch.from_numpy(dead), distance), other))
    assert 0.0 <= value <= 1.0
    nothing = rdm(torch.zeros(6, 3).double(), distance)
    agree(consistency(nothing, other), 0.0, 1e-12)


class TwoLayers:
    """w = (V [2, 3] of the shallow layer, U [3, 4] of the deep one): h = relu(x V), p = softmax(h U)."""

    size, layers = 18, ("shallow", "deep")
    deep, head = torch.tensor([False, True]), torch.tensor([False, True])
    stimuli = np.random.default_rng(10).normal(size=(7, 2))

    def expand(self, layers: torch.Tensor) -> torch.Tensor:
        return layers.repeat_interleave(torch.tensor([6, 12]), dim=-1)

    def outputs(self, w: np.ndarray) -> list[np.ndarray]:
        h = np.maximum(self.stimuli @ w[:6].reshape(2, 3), 0.0) + 0.05  # away from the dead ReLU
        z = np.exp(h @ w[6:].reshape(3, 4))
        return [h, z / z.sum(1, keepdims=True)]

    def layer_outputs(self, models: torch.Tensor, stimuli: str) -> list[torch.Tensor]:
        return [torch.from_numpy(np.stack(x)) for x in zip(*(self.outputs(w.numpy()) for w in models), strict=True)]


def aggregate(algo: Fed2A, w: np.ndarray, model: np.ndarray, sent: np.ndarray, n: np.ndarray, late: np.ndarray) -> Any:
    """One call of the server's step, K = 4 devices with staleness `late`."""
    net, K = TwoLayers(), len(n)
    samples = torch.from_numpy(n)
    fed = Fed(K, K, 30, 1, 0.1, 0.0, 0.0, samples, net, layer_outputs=net.layer_outputs)
    layers, ones = torch.from_numpy(sent), torch.ones(K).double()
    server = torch.from_numpy(w)
    full = torch.where(net.expand(layers), torch.from_numpy(model), server)
    received = server + 0.01 * torch.arange(18)
    updates = Updates(
        client=torch.arange(K), version=20 - torch.from_numpy(late), staleness=torch.from_numpy(late), samples=samples,
        count=ones, epochs=ones, steps=ones, effective_steps=ones, lr_sum=ones, loss=ones, layers=layers,
        received=received,
        delta=(full - received) * net.expand(layers), base=torch.where(net.expand(layers), received, server),
        weight=samples / samples.sum(),
    )  # fmt: skip
    return algo.aggregate({"w": server}, updates, fed)["w"]


def consistencies(w: np.ndarray, model: np.ndarray, sent: np.ndarray, distance: str) -> np.ndarray:
    """rc[k, l]: Eq. 10 between the device's model (the server's layers where it sent none) and the server's."""
    net = TwoLayers()
    glo = [pdist(x, distance) for x in net.outputs(w)]
    rc = []
    for m, (shallow, deep) in zip(model, sent, strict=True):
        own = net.outputs(np.concatenate([m[:6] if shallow else w[:6], m[6:] if deep else w[6:]]))
        rc.append([pearsonr(pdist(x, distance), g).statistic ** 2 for x, g in zip(own, glo, strict=True)])
    return np.array(rc)


SOME, NONE, ALL = [True, False, True, True], [False] * 4, [True] * 4


@pytest.mark.parametrize("distance", ["cosine", "correlation", "euclidean"])
@pytest.mark.parametrize("tvw", ["exp", "inv", "log", "none"])
@pytest.mark.parametrize("deep", [SOME, NONE, ALL], ids=["some", "nobody", "all"])
def test_layers_are_weighed_by_time_and_consistency(tvw: str, distance: str, deep: list[bool]) -> None:
    """Weight of device k in layer l: TW_k rc_k^l over the sum for those who sent l; RCE alone (tvw=none): rc_k^l."""
    rng = np.random.default_rng(11)
    w, model = rng.normal(size=18), rng.normal(size=(4, 18))
    n, late = np.array([3.0, 50.0, 11.0, 7.0]), np.array([0.0, 4.0, 1.0, 9.0])
    sent = np.stack([np.ones(4, bool), np.array(deep)], axis=1)
    rc = consistencies(w, model, sent, distance)
    TW = np.ones(4) if tvw == "none" else n * np.array([F[tvw](d) for d in late])
    raw = TW[:, None] * rc * sent
    expected = w.copy()
    for layer, part in enumerate((slice(0, 6), slice(6, 18))):
        if raw[:, layer].any():
            expected[part] = raw[:, layer] @ model[:, part] / raw[:, layer].sum()
    agree(aggregate(Fed2A(K=4, tvw=tvw, rce=True, distance=distance), w, model, sent, n, late), expected)


def test_a_layer_without_any_consistency_falls_back() -> None:
    """U = 0 at the server: softmax gives 1/4 to all, a constant RDM, rc = 0 for everybody: that layer goes by TW."""
    rng = np.random.default_rng(12)
    w, model = rng.normal(size=18), rng.normal(size=(4, 18))
    w[6:] = 0.0
    n, late = np.array([3.0, 50.0, 11.0, 7.0]), np.array([0.0, 4.0, 1.0, 9.0])
    sent = np.stack([np.ones(4, bool), np.array(SOME)], axis=1)
    glo = pdist(TwoLayers().outputs(w)[0], "cosine")
    rc = [pearsonr(pdist(TwoLayers().outputs(m)[0], "cosine"), glo).statistic ** 2 for m in model]
    shallow, deep = n / (late + 1) * rc, n / (late + 1) * SOME
    expected = np.concatenate([shallow @ model[:, :6] / shallow.sum(), deep @ model[:, 6:] / deep.sum()])
    agree(aggregate(Fed2A(K=4, tvw="inv", rce=True), w, model, sent, n, late), expected)


def test_the_same_step_without_rce() -> None:
    """The size- and time-weighted mean of those who sent."""
    rng = np.random.default_rng(13)
    w, model = rng.normal(size=18), rng.normal(size=(4, 18))
    n, late = np.array([3.0, 50.0, 11.0, 7.0]), np.array([0.0, 4.0, 1.0, 9.0])
    sent = np.stack([np.ones(4, bool), np.array(SOME)], axis=1)
    TW = n / (np.log(late + 1) + 1)
    deep = TW * np.array(SOME)
    expected = np.concatenate([TW @ model[:, :6] / TW.sum(), deep @ model[:, 6:] / deep.sum()])
    agree(aggregate(Fed2A(K=4, tvw="log", rce=False), w, model, sent, n, late), expected)

"""Fed2A (Liu et al., 2022), the other readings of its text on quadratics: who is aggregated when (the devices that
arrived or all devices' last models), which round PLU counts, what t_k is and what a device keeps. RCE on a network."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from scipy.stats import pearsonr

from bench.errors import UserError
from bench.prepare import compose
from bench.prepare.assemble import build
from bench.simulation.loop import FederatedLoop

from .problem import Problem, agree, arrivals, make
from .test_fed2a import F, deep_rounds, uneven

Batches = list[
    list[tuple[int, int]]
]  # per aggregation: device, version it downloaded; one drawn twice stands there twice


@dataclass
class Log:
    w: np.ndarray
    own: np.ndarray  # [N, P]: the devices' last models
    sent: np.ndarray  # [N] bool: whether the deep layer was part of the last upload
    numbers: int  # uploaded in all
    kept: int  # starts from an own deep layer


def derive(
    q: Problem,
    batches: Batches,
    *,
    deep: int,
    P: int,
    D: int,
    tvw: str,
    plu: str = "download",
    unsent: str = "replaced",
    t_k: str = "download",
    cached: bool = False,
    **terms: float,
) -> Log:
    """Device i has w_v, in the deep layer its own last values if it is to keep what it did not send, and trains. In
    aggregation t it sends the deep layer if v (plu=download) or t (upload) is one of PLU's rounds.
    arrived: each layer is the mean over those who sent it, by count n_i f(t - v); what nobody sent stays.
    cached: the server overwrites what it stored of i, layer by layer, and notes v (t_k=download) or t (upload) for it;
    each layer that somebody sent is the mean over all stored, by n_i f(t - noted); w_0 and 0 are stored at first."""
    N, s = q.clients, len(q.w0) - deep
    w, rounds = [q.w0], deep_rounds(q.rounds + P, P, D)
    own, sent, numbers, kept = np.tile(q.w0, (N, 1)), np.ones(N, bool), 0, 0
    stored, noted = own.copy(), np.zeros(N)
    for t, batch in enumerate(batches):
        new, counts = w[t].copy(), Counter(batch)
        for i, v in counts:
            start = w[v].copy()
            if unsent == "kept" and not sent[i]:
                start[s:], kept = own[i, s:], kept + 1
            own[i], sent[i] = q.end(i, start, q.steps[v, i], **terms), (v if plu == "download" else t) in rounds
            numbers += len(q.w0) if sent[i] else s
            stored[i, : len(q.w0) if sent[i] else s] = own[i, : len(q.w0) if sent[i] else s]
            noted[i] = v if t_k == "download" else t
        if cached:
            raw = q.samples * np.array([F[tvw](t - date) for date in noted])
            upto = len(q.w0) if any(sent[i] for i, _ in counts) else s
            new[:upto] = raw @ stored[:, :upto] / raw.sum()
        else:
            raw = {i: count * q.samples[i] * F[tvw](t - v) for (i, v), count in counts.items()}
            for part, who in ((slice(0, s), list(raw)), (slice(s, None), [i for i in raw if sent[i]])):
                if who:
                    new[part] = sum(raw[i] * own[i, part] for i in who) / sum(raw[i] for i in who)
        w.append(new)
    return Log(np.array(w), own, sent, numbers, kept)


def compare(
    q: Problem, batches: Batches, *, deep: int = 2, cached: bool = False, keys: Any = None, **fields: Any
) -> Log:
    expected = derive(q, batches, deep=deep, cached=cached, **fields)
    named = {f"algo.{name}": value for name, value in fields.items()} | {"algo.rce": False}
    trace = q.run("fed2a", deep=deep, aggregation="cached" if cached else "arrived", **named, **(keys or {}))
    agree(trace.w, expected.w)
    assert trace.rows[-1]["bytes_up"] == 4 * expected.numbers
    if fields.get("unsent") == "kept":
        agree(trace.clients["w"], expected.own)
        assert trace.clients["sent"].tolist() == [[True, flag] for flag in expected.sent.tolist()]
    return expected


def synchronous(
    seed: int, rounds: int = 14, clients: int = 6, cohort: int = 3
) -> tuple[Problem, Batches, dict[str, int]]:
    """Cohorts of three drawn with replacement, so that some devices stay away for long."""
    q = make(seed, clients=clients, rounds=rounds)
    cohorts = np.random.default_rng(seed).integers(clients, size=(rounds, cohort)).tolist()
    assert any(len(set(drawn)) < cohort for drawn in cohorts)
    batches = [[(i, t) for i in drawn] for t, drawn in enumerate(cohorts)]
    return replace(q, cohorts=cohorts), batches, {"concurrency": cohort, "buffer": cohort}


@pytest.mark.parametrize("unsent", ["replaced", "kept"])
@pytest.mark.parametrize("cached", [False, True], ids=["arrived", "cached"])
@pytest.mark.parametrize(
    ("tvw", "P", "D"), [("inv", 4, 2), ("exp", 5, 5), ("log", 3, 1), ("none", 4, 1), ("none", 4, 4)]
)
def test_synchronous_rounds(tvw: str, P: int, D: int, cached: bool, unsent: str) -> None:
    """TVW, PLU, both and neither. In a synchronous round download, upload and aggregation have one version, so that the
    other two choices are none."""
    q, batches, keys = synchronous(270)
    log = compare(q, batches, cached=cached, tvw=tvw, P=P, D=D, unsent=unsent, keys=keys)
    assert bool(log.kept) == (unsent == "kept" and D < P)
    for plu, t_k in product(("download", "upload"), repeat=2):
        same = compare(q, batches, cached=cached, tvw=tvw, P=P, D=D, unsent=unsent, plu=plu, t_k=t_k, keys=keys)
        assert np.array_equal(same.w, log.w)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("unsent", ["replaced", "kept"])
@pytest.mark.parametrize("plu", ["download", "upload"])
@pytest.mark.parametrize(("cached", "t_k"), [(False, "download"), (True, "download"), (True, "upload")])
@pytest.mark.parametrize(("tvw", "P", "D"), [("inv", 4, 2), ("log", 3, 1), ("none", 5, 2)])
def test_asynchronous_rounds(
    tvw: str, P: int, D: int, cached: bool, t_k: str, plu: str, unsent: str, seed: int
) -> None:
    q = make(271 + seed, rounds=16)
    seconds = uneven(271 + seed, q.clients)
    readings = {"plu": plu, "unsent": unsent, "t_k": t_k}
    batches = arrivals(seconds, q.clients, q.rounds, 3)
    log = compare(q, batches, cached=cached, tvw=tvw, P=P, D=D, **readings, keys={"seconds": seconds, "algo.K": 3})
    plain = derive(q, batches, deep=2, cached=cached, tvw=tvw, P=P, D=D)
    other = plu == "upload" or unsent == "kept" or (t_k == "upload" and tvw != "none")
    assert np.array_equal(log.w, plain.w) != other, "another reading is another trajectory"
    assert bool(log.kept) == (unsent == "kept")


def test_ties_and_one_upload_at_a_time() -> None:
    """A buffer of one, where the round changes between two uploads of the same instant."""
    q = make(273, clients=6, size=5, rounds=40)
    seconds = np.random.default_rng(273).integers(1, 5, (q.rounds, q.clients)) / 4
    batches, keys = arrivals(seconds, q.clients, q.rounds, 1), {"seconds": seconds, "algo.K": 1}
    for unsent in ("replaced", "kept"):
        compare(q, batches, tvw="exp", P=5, D=2, plu="upload", unsent=unsent, keys=keys)
        compare(q, batches, tvw="exp", P=5, D=2, plu="upload", unsent=unsent, t_k="upload", cached=True, keys=keys)


def test_a_dated_model_is_fresh_when_it_arrives_and_ages() -> None:
    """t_k=upload, by hand: three devices, one upload an aggregation in the order 0, 1, 2, 0, ...: from the third on the
    ages are 0, 1 and 2, whatever the versions downloaded."""
    q = make(274, clients=3, rounds=9)
    batches = arrivals(np.ones(3), 3, 9, 1)
    assert [i for ((i, _),) in batches] == [0, 1, 2] * 3
    w, last = [q.w0], np.tile(q.w0, (3, 1))
    for t, ((i, v),) in enumerate(batches):
        last[i] = q.end(i, w[v], q.steps[v, i])
        age = np.array([t - max([s for s in range(t + 1) if s % 3 == j], default=0) for j in range(3)])
        raw = q.samples / (age + 1)
        w.append(raw @ last / raw.sum())
    keys = {"algo.D": 10, "algo.K": 1, "algo.rce": False, "algo.t_k": "upload", "seconds": np.ones(3)}
    agree(q.run("fed2a", aggregation="cached", **keys).w, w)


@pytest.mark.parametrize(
    ("algo", "fields", "terms"), [("fedavg", {}, {}), ("fedprox", {"algo.mu": 1.0}, {"prox": 1.0})]
)
def test_the_baselines_with_every_devices_last_model(
    algo: str, fields: dict[str, float], terms: dict[str, float]
) -> None:
    """Synchronous and cached: w_{t+1} = sum over all N of n_k (last model of k) / n, which is PLU(R, P, P) alone."""
    q, batches, keys = synchronous(275)
    expected = derive(q, batches, deep=2, P=1, D=1, tvw="none", cached=True, **terms)
    agree(q.run(algo, aggregation="cached", **fields, **keys).w, expected.w)


SMALL = (
    *("dataset=digits", "clients=7", "cohort=3", "rounds=14", "epochs=1", "batch_size=70", "test_samples=64"),
    *("model=custom", f"model.target={Path(__file__).with_name('partly_deep.py')}:PartlyDeep"),
    *("engine=vmap", "engine.workers=1"),
    *("algo=fed2a", "algo.P=3", "algo.D=1"),
)


def loop(*words: str) -> FederatedLoop:
    made = build(compose.config([*SMALL, *words])).loop
    assert made.fed.layout.deep.tolist() == [False, True, True]
    return made


@pytest.mark.parametrize("schedule", ["schedule=sync", "algo.K=2"])
@pytest.mark.parametrize("alone", ["algo.tvw=none", "algo.tvw=inv"])
def test_rce_with_every_devices_last_model(alone: str, schedule: str) -> None:
    """The same mean with the weights TW_k rc_k^l (RCE alone: rc_k^l), rc from scipy; the stored models are those that
    the devices were seen to upload."""
    run = loop("aggregation=cached", alone, schedule)
    fed, method, N, seen = run.fed, run.algo.method, 7, []

    class Watched(type(method)):  # type: ignore[misc]
        def aggregate(self, server: Any, updates: Any, fed: Any) -> Any:
            after = super().aggregate(server, updates, fed)
            seen.append((server["w"], updates, after["w"]))
            return after

    run.algo = run.training.algo = Watched(**vars(method))
    stored = np.tile(run.server["w"].double().numpy(), (N, 1))
    noted = np.zeros(N)
    remember, merge = run.training.merge, {}

    def watch(server: Any, version: int, rows: Any, learned: Any, sent: Any) -> Any:
        somebody = fed.layout.expand(torch.tensor(rows.layers).any(0)).numpy()
        for k, i in enumerate(rows.client):
            there = fed.layout.expand(torch.tensor(rows.layers[k])).numpy()
            model = (sent[rows.version[k]]["w"] + learned.delta[k]).double().numpy()
            stored[i], noted[i] = np.where(there, model, stored[i]), rows.version[k]
        merge[version] = np.where(somebody, stored, server["w"]), version - noted, somebody
        return remember(server, version, rows, learned, sent)

    run.training.merge = watch  # type: ignore[method-assign]
    while not run.finished:
        run.advance()
    assert len(seen) == run.version >= 14
    assert schedule != "schedule=sync" or run.sync
    for t, (w, _, after) in enumerate(seen):
        models, age, somebody = merge[t]
        outputs = fed.layer_outputs(torch.cat([w[None], torch.from_numpy(models).float()]), "train")
        raw = fed.samples.numpy() / (age + 1) if alone.endswith("inv") else np.ones(N)
        expected = w.double().numpy().copy()
        for layer, values in enumerate(outputs):
            glo, *loc = (pdist(v.double().numpy(), "cosine") for v in values)
            rc = np.array([pearsonr(glo, u).statistic ** 2 for u in loc])
            part = fed.layout.expand(torch.eye(len(outputs), dtype=torch.bool)[layer]).numpy()
            if somebody[part].all():
                expected[part] = (raw * rc) @ models[:, part] / (raw * rc).sum()
        np.testing.assert_allclose(after.numpy(), expected, atol=2e-6)


READINGS = ("algo.plu=upload", "algo.unsent=kept", "algo.plu=upload algo.unsent=kept", "algo.t_k=upload")


@pytest.mark.parametrize("aggregation", ["arrived", "cached"])
@pytest.mark.parametrize("words", READINGS)
def test_a_reading_resumes_bit_for_bit_whatever_is_trained_together(words: str, aggregation: str) -> None:
    given = (f"aggregation={aggregation}", "algo.K=2", "devices.loss=0.2", *words.split())
    if "t_k" in words and aggregation == "arrived":
        with pytest.raises(UserError, match="only aggregation=cached"):
            loop(*given)
        return
    one, two, three = loop(*given), loop(*given, "engine.batch=1"), loop(*given)
    for _ in range(3):
        one.advance()
    three.load_state_dict(one.state_dict())
    for run in (one, two, three):
        while not run.finished:
            row = run.advance()
    assert torch.equal(one.server["w"], two.server["w"]) and torch.equal(one.server["w"], three.server["w"])
    assert row["bytes_up"] == one.traffic.up == two.traffic.up
    plain = loop(*given[:3])
    while not plain.finished:
        plain.advance()
    assert not torch.equal(one.server["w"], plain.server["w"])


def test_the_round_of_the_arrival_needs_instant_links() -> None:
    with pytest.raises(UserError, match=r"devices\.up has to be null where fed2a goes by the round of the arrival"):
        loop("algo.plu=upload", "devices.up=1")
    loop("algo.plu=upload", "devices.up=1", "schedule=sync")

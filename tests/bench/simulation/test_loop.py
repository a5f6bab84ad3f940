"""What the loop promises every method, shown with small methods of the tests' own on an exactly solvable federation."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

from algorithms.base import Algorithm, LocalRule, Upload
from algorithms.fedasync import FedAsync
from tests.bench.simulation.small import LR, W0, B, N, Post, assert_close, run, step


def test_mail_is_read_at_the_next_start_and_never_earlier():
    """Seconds 1, 2, 3, 4. At t = 1 device 0 posts g_0(w0) to 1, which is training since 0: it reads it at its next
    start, t = 2, and its step there is w - lr (w - b_1 + g_0). By then device 0 has posted once more (t = 2, before
    the start): the latest counts."""
    trace = run(Post(), seconds=[1.0, 2.0, 3.0, 4.0], rounds=6)
    w = [W0]
    g = lambda w, i: w - B[i]  # noqa: E731
    w.append(w[0] - LR * g(w[0], 0))  # t=1: device 0 from version 0
    w.append(w[1] - LR * g(w[1], 0))  # t=2: device 0 from version 1, then ...
    w.append(w[2] - LR * g(w[0], 1))  # t=2: ... device 1 from version 0
    # t=3: device 0 from version 2 has no mail (3 posts to it at t=4), device 2 from version 0
    w.append(w[3] - LR * g(w[2], 0))
    w.append(w[4] - LR * g(w[0], 2))
    # t=4: device 0 from version 4; its start at t=3 read nothing
    w.append(w[5] - LR * g(w[4], 0))
    assert_close(trace.w, w)
    longer = run(Post(), seconds=[1.0, 2.0, 3.0, 4.0], rounds=8)
    # t=4 goes on: device 1 started at t=2 from version 3 with device 0's mail of t=2, its gradient at version 1
    w.append(w[6] - LR * (g(w[3], 1) + g(w[1], 0)))
    w.append(w[7] - LR * g(w[0], 3))
    assert_close(longer.w, w)
    assert longer.server["read"].tolist() == [[0, 0], [0, 0], [1, 0], [0, 0], [2, 0], [0, 0], [1, 1], [3, 0]]


@pytest.mark.parametrize("algo", [Post(), FedAsync(), Algorithm()])
def test_how_many_jobs_are_trained_together_changes_no_bit(algo):
    keys = {"seconds": [1.0, 1.5, 2.2, 4.0], "rounds": 25, "steps": 3, "momentum": 0.5}
    assert torch.equal(run(algo, batch=1, **keys).w, run(algo, **keys).w)


def test_an_asynchronous_loop_calls_the_engine_far_less_often_than_it_has_jobs(monkeypatch):
    from bench.engine.eager import Eager

    calls, train = [], Eager.train
    monkeypatch.setattr(Eager, "train", lambda self, *args: calls.append(len(args[3])) or train(self, *args))
    run(FedAsync(), rounds=40)
    assert sum(calls) == 40
    assert len(calls) == 10


@dataclass(frozen=True, kw_only=True)
class Partial(Algorithm):
    """Averages models; the deep layer is sent in even versions only."""

    def init_server(self, w, fed):
        return {"w": w, "delta": w.new_zeros(fed.clients, len(w))}

    def sends(self, version, fed):
        return fed.all_layers if version % 2 == 0 else ~fed.layout.deep

    def aggregate(self, server, updates, fed):
        return {**server, "w": updates.weight @ updates.model, "delta": updates.delta}


def test_a_layer_that_was_not_sent_keeps_the_servers_value():
    trace = run(Partial(), deep=1, rounds=2, weighting="uniform")
    one = np.mean([step(W0, i) for i in range(N)], axis=0)
    two = np.mean([step(one, i) for i in range(N)], axis=0)
    assert_close(trace.w, [W0, one, [two[0], one[1]]])
    assert not trace.server["delta"][:, 1].any()


@dataclass(frozen=True, kw_only=True)
class Personal(Algorithm):
    """The head is shared, the body stays on the device."""

    personal: ClassVar[str] = "body"


def test_the_personal_part_stays_on_the_device_and_does_not_reach_the_server():
    """Coordinate 0 is the body: device i goes on from its own, lr-contraction towards b_i; coordinate 1 is averaged."""
    trace = run(Personal(), deep=1, rounds=3, weighting="uniform")
    heads = [W0[1]]
    for _ in range(3):
        heads.append(np.mean([h - LR * (h - B[i][1]) for i in range(N) for h in heads[-1:]]))
    assert_close(trace.w[:, 1], heads)
    assert_close(trace.w[:, 0], [W0[0]] * 4)
    assert_close(trace.clients["w"][:, 0], [step(W0, i, 3)[0] for i in range(N)])


@dataclass(frozen=True, kw_only=True)
class Twice(Algorithm):
    """Every round is dispatched twice before it counts."""

    def init_server(self, w, fed):
        return {"w": w, "passes": torch.zeros((), dtype=w.dtype)}

    def aggregate(self, server, updates, fed):
        return {**super().aggregate(server, updates, fed), "passes": server["passes"] + 1}

    def repeat_round(self, server, fed):
        return bool(server["passes"] % 2)


def test_a_repeated_dispatch_goes_to_the_same_cohort_and_does_not_count_as_a_round():
    trace = run(Twice(), rounds=2, cohorts=[[0, 1], [2, 3]], weighting="uniform")
    w = [W0]
    for cohort in ([0, 1], [2, 3]):
        now = w[-1]
        for _ in range(2):
            now = np.mean([step(now, i) for i in cohort], axis=0)
        w.append(now)
    assert_close(trace.w, w)
    assert trace.server["passes"] == 4


@dataclass(frozen=True, kw_only=True)
class Traced(Algorithm):
    @property
    def requires(self):
        return frozenset({"trace", "last_gradient", "mean_gradient", "full_gradient", "start_loss"})

    def init_server(self, w, fed):
        rows, epochs = w.new_zeros(fed.cohort, len(w)), fed.epochs
        gradients = {"last_gradient": rows, "mean_gradient": rows, "full_gradient": rows, "start_loss": rows[:, 0]}
        trace = {"trace_w": w.new_zeros(epochs + 1, len(w)), "trace_gradient": w.new_zeros(epochs, len(w))}
        return {"w": w, **gradients, **trace, "reached": w.new_zeros(epochs + 1)}

    def extra_up(self, fed):
        return 3 * fed.layout.size + 1

    def upload(self, jobs, trained, fed):
        names = ("last_gradient", "mean_gradient", "full_gradient", "start_loss")
        return Upload(trained.end - jobs.received, extra={name: getattr(trained, name) for name in names})

    def aggregate(self, server, updates, fed):
        t = updates.trace
        seen = {**updates.extra, "trace_w": t.w, "trace_gradient": t.gradient, "reached": t.reached}
        return {**super().aggregate(server, updates, fed), **seen}


@pytest.mark.parametrize("batch", [None, 1])
def test_the_engine_fills_what_a_method_needs(batch):
    """Device 1 stops after one of two epochs, so that means over epoch two are those of devices 0 and 2."""
    server = run(Traced(), cohorts=[[0, 1, 2]], steps=[[2, 1, 2, 2]], batch=batch).server
    start = np.stack([W0 - B[i] for i in (0, 1, 2)])
    second = np.stack([step(W0, i) - B[i] for i in (0, 1, 2)])
    assert_close(server["full_gradient"], start)
    assert_close(server["last_gradient"], [second[0], start[1], second[2]])
    assert_close(server["mean_gradient"], [(start[0] + second[0]) / 2, start[1], (start[2] + second[2]) / 2])
    assert_close(server["start_loss"], [W0 @ W0 / 2 - B[i] @ W0 for i in (0, 1, 2)])
    assert_close(server["trace_gradient"], [start.mean(0), second[[0, 2]].mean(0)])
    ends = [np.mean([step(W0, i, k) for i in who], axis=0) for k, who in enumerate([(0, 1, 2), (0, 1, 2), (0, 2)])]
    assert_close(server["trace_w"], ends)
    assert server["reached"].tolist() == [3, 3, 2]


def test_cached_aggregation_averages_every_devices_last_model():
    trace = run("fedavg", cohorts=[[0], [1]], rounds=2, aggregation="cached", weighting="uniform")
    first = (step(W0, 0) + 3 * W0) / 4
    second = (step(W0, 0) + step(first, 1) + 2 * W0) / 4
    assert_close(trace.w, [W0, first, second])


@dataclass(frozen=True, kw_only=True)
class CachedPartial(Partial):
    cacheable: ClassVar[bool] = True


def test_the_cache_keeps_a_layer_that_was_not_sent():
    """Version 0 sends all, version 1 the shallow coordinate only: device 0's deep one stays that of round 1."""
    keys = {"deep": 1, "rounds": 2, "aggregation": "cached", "weighting": "uniform"}
    trace = run(CachedPartial(), cohorts=[[0], [0]], **keys)
    first = (step(W0, 0) + 3 * W0) / 4
    again = np.array([step(first, 0)[0], step(W0, 0)[1]])
    assert_close(trace.w, [W0, first, (again + 3 * W0) / 4])


def test_cached_models_are_as_stale_as_the_version_they_were_made_from():
    @dataclass(frozen=True, kw_only=True)
    class Keeps(Algorithm):
        cacheable: ClassVar[bool] = True

        def init_server(self, w, fed):
            return {"w": w, "staleness": w.new_zeros(fed.clients)}

        def aggregate(self, server, updates, fed):
            return {**server, "staleness": updates.staleness}

    trace = run(Keeps(), cohorts=[[0], [1], [2, 3]], rounds=3, aggregation="cached")
    assert trace.server["staleness"].tolist() == [2, 1, 0, 0]


def test_staleness_is_counted_in_aggregations_since_the_download():
    """Equal devices arrive in their order: 0, 1, 2, 3 aggregations late at first, three each from then on."""
    rows = run("fedasync", rounds=12).rows
    assert [row["staleness_mean"] for row in rows] == [0, 1, 2, 3] + [3] * 8
    both = run("fedasync", rounds=6, buffer=2).rows
    assert [row["staleness_max"] for row in both[1::2]] == [0, 1, 1, 1, 1, 1]


def test_bytes_count_a_device_that_was_drawn_twice_once_and_its_messages_one_by_one():
    rows = run("fedavg", rounds=2, cohorts=[[0, 1, 1], [2, 2, 2]]).rows
    assert [row["bytes_up"] for row in rows] == [4 * 2 * 2, 4 * 2 * 3]
    assert [row["bytes_down"] for row in rows] == [4 * 2 * 2, 4 * 2 * 3]
    personal = run(Personal(), deep=1, cohorts=[[0, 1]]).rows[-1]
    assert (personal["bytes_up"], personal["bytes_down"]) == (4 * 2, 4 * 2)  # the head alone, up and down
    post = run(Post(), seconds=[1.0, 2.0, 3.0, 4.0], rounds=3).rows[-1]
    assert post["bytes_peer"] == 3 * 4 * 2  # devices 0, 0 and 1 have finished
    assert post["bytes_down"] == 5 * 4 * (2 + N)  # model and row of four; the starts at t = 2 come after the uploads


def test_the_training_loss_weighs_devices_by_samples_and_draws():
    row = run("fedavg", cohorts=[[0, 2, 2]], samples=[1, 2, 3, 4]).rows[-1]
    loss = [W0 @ W0 / 2 - B[i] @ W0 for i in range(N)]
    assert row["train_loss"] == pytest.approx((1 * loss[0] + 2 * 3 * loss[2]) / 7)


@dataclass(frozen=True, kw_only=True)
class Sharp(Algorithm):
    def local(self, jobs, w, epoch, fed):
        return LocalRule(sam=0.1)


def test_gradient_evaluations_count_two_for_a_step_that_climbs_first():
    assert run("fedavg", cohorts=[[0, 1]], steps=3).rows[-1]["gradient_evaluations"] == 6
    assert run(Sharp(), cohorts=[[0, 1]], steps=3).rows[-1]["gradient_evaluations"] == 12
    assert run(Traced(), cohorts=[[0, 1]], steps=3).rows[-1]["gradient_evaluations"] == 8  # and the full one


def test_sampling_with_replacement_keeps_all_places_taken():
    from bench.simulation.loop import FederatedLoop

    seen = []
    after = FederatedLoop._came

    def watch(self, jobs, tally):
        after(self, jobs, tally)
        seen.append(sum(j.count for j in (*self.jobs.values(), *self.arrived)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FederatedLoop, "_came", watch)
        run("fedavg", concurrency=4, buffer=2, sampling="with_replacement", rounds=30)
    assert set(seen) == {4}


def test_a_buffer_between_one_and_all_lets_the_others_go_on():
    """Seconds 1, 2, 3, 4, buffer 2: {0, 1} at t = 2 and, restarted from version 1, device 0 at t = 3 with device 2
    of version 0."""
    trace = run("fedavg", concurrency=4, buffer=2, seconds=[1.0, 2.0, 3.0, 4.0], rounds=2, weighting="uniform")
    one = W0 + (step(W0, 0) - W0 + step(W0, 1) - W0) / 2
    two = one + (step(one, 0) - one + step(W0, 2) - W0) / 2
    assert_close(trace.w, [W0, one, two])


def test_with_fewer_places_than_devices_the_loop_draws_who_follows():
    trace = run("fedavg", concurrency=2, buffer=1, rounds=30)
    assert torch.isfinite(trace.w).all()
    assert torch.equal(trace.w, run("fedavg", concurrency=2, buffer=1, rounds=30).w)
    assert not torch.equal(trace.w, run("fedavg", concurrency=2, buffer=1, rounds=30, seed=1).w)


def test_unknown_keys_and_names_are_refused_with_what_there_is():
    with pytest.raises(ValueError, match=r"momentun.*momentum"):
        run("fedavg", momentun=0.5)
    with pytest.raises(ValueError, match=r"fedavgg.*fedavg"):
        run("fedavgg")
    with pytest.raises(ValueError, match=r"nu.*field of fedprox|field of fedprox.*nu"):
        run("fedprox", **{"algo.nu": 1})


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"steps": 3, "epochs": 2}, "between 1 and"),
        ({"steps": [1, 2]}, "steps is a number"),
        ({"rounds": 0}, "at least 1"),
        ({"cohorts": [[0]], "rounds": 2}, "for each of 2 rounds"),
        ({"cohorts": [[7]]}, "clients 0 to 3"),
        ({"cohorts": [[]]}, "one or more"),
    ],
)
def test_a_script_that_does_not_fit_is_refused(keys, sentence):
    with pytest.raises(ValueError, match=sentence):
        run("fedavg", **keys)

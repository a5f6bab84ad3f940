"""Transforms of uploads on quadratics, against numpy: what is left out, rounded, cut, and what a device remembers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil, log2
from typing import Any

import numpy as np
import pytest
import torch

from algorithms.uploads.base import Draw, Size, Transform
from algorithms.uploads.clip_noise import Clip_Noise
from algorithms.uploads.quantise import Quantise
from algorithms.uploads.topk import TopK
from bench.seeding import stream

from .problem import Problem, agree, make

SEED = 3
Link = Callable[[int, str, np.ndarray], np.ndarray]  # device, vector, what it would send -> what the server has


def chosen(x: np.ndarray, k: int) -> np.ndarray:
    """The k largest in size, of equal ones the first; zero elsewhere."""
    places = sorted(range(len(x)), key=lambda i: (-abs(x[i]), i))[:k]
    return np.where(np.isin(np.arange(len(x)), places), x, 0.0)


class Feedback:
    """Of every device and vector what was left out so far is added to the next."""

    def __init__(self, k: int, size: int) -> None:
        self.k, self.left = k, {}
        self.size = size

    def __call__(self, i: int, name: str, x: np.ndarray, there: Any = slice(None)) -> np.ndarray:
        left = self.left.setdefault((i, name), np.zeros(self.size))
        whole = x[there] + left[there]
        sent = np.zeros(self.size)
        sent[there] = chosen(whole, self.k)
        left[there] = whole - sent[there]
        return sent


def rounded(x: np.ndarray, bits: int, beyond: Any = 0.5) -> np.ndarray:
    s, top = 2 ** (bits - 1) - 1, np.abs(x).max()
    return np.clip(np.floor(x * s / top + beyond), -s, s) * top / s


def clipped(x: np.ndarray, clip: float) -> np.ndarray:
    return x * min(1.0, clip / np.sqrt(x @ x))


def fedavg(q: Problem, link: Link) -> np.ndarray:
    w = [q.w0]
    for t, cohort in enumerate(q.cohorts or []):
        share = q.weights(cohort, "size")
        w.append(w[t] + sum(p * link(i, "delta", q.end(i, w[t], q.steps[t, i]) - w[t]) for i, p in share.items()))
    return np.array(w)


def scaffold(q: Problem, link: Link) -> np.ndarray:
    """The device's own control variate is exact; the server has what came of its change."""
    w, c, own = [q.w0], np.zeros_like(q.w0), np.zeros_like(q.b)
    for t, cohort in enumerate(q.cohorts or []):
        move, change = np.zeros_like(c), np.zeros_like(c)
        for i, p in q.weights(cohort, "size").items():
            delta = q.end(i, w[t], q.steps[t, i], drift=c - own[i]) - w[t]
            new = own[i] - c - delta / (q.lr * q.steps[t, i])
            move += p * link(i, "delta", delta)
            change += link(i, "c", new - own[i])
            own[i] = new
        w.append(w[t] + move)
        c = c + change / q.clients
    return np.array(w)


METHODS = {"fedavg": fedavg, "scaffold": scaffold}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("method", METHODS)
def test_the_largest_are_sent_and_the_others_remembered(method: str, seed: int) -> None:
    q = make(900 + seed)
    trace = q.run(method, upload=[TopK(fraction=0.5)])
    agree(trace.w, METHODS[method](q, Feedback(2, 4)))
    without = q.run(method, upload=[TopK(fraction=0.5, error_feedback=False)])
    agree(without.w, METHODS[method](q, lambda i, name, x: chosen(x, 2)))
    assert not torch.allclose(trace.w, without.w)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("method", METHODS)
def test_numbers_are_rounded_to_the_nearest_step(method: str, bits: int) -> None:
    q = make(903)
    trace = q.run(method, upload=[Quantise(bits=bits, stochastic=False)])
    agree(trace.w, METHODS[method](q, lambda i, name, x: rounded(x, bits)))


def test_a_draw_decides_by_device_upload_and_vector_which_way_a_number_is_rounded() -> None:
    q, uploads = make(904), dict[tuple[int, str], int]()

    def link(i: int, name: str, x: np.ndarray) -> np.ndarray:
        number = uploads[i, name] = uploads.get((i, name), -1) + 1
        drawn = stream(SEED, "upload", i, number, int(name == "c"))
        return rounded(x, 3, drawn.random(len(x)))

    agree(q.run("scaffold", seed=SEED, upload=[Quantise(bits=3)]).w, scaffold(q, link))


@pytest.mark.parametrize("clip", [0.05, 0.5])
@pytest.mark.parametrize("method", METHODS)
def test_each_vector_is_cut_to_the_norm(method: str, clip: float) -> None:
    q = make(905)
    agree(
        q.run(method, upload=[Clip_Noise(clip=clip, noise=0)]).w,
        METHODS[method](q, lambda i, name, x: clipped(x, clip)),
    )


def test_a_row_is_gone_through_from_left_to_right() -> None:
    """What the first leaves out is no number to the second; a device remembers what the first left out."""
    q, feedback = make(906), Feedback(2, 4)
    row = [TopK(fraction=0.5), Clip_Noise(clip=0.3, noise=0), Quantise(bits=3, stochastic=False)]
    agree(q.run("fedavg", upload=row).w, fedavg(q, lambda *x: rounded(clipped(feedback(*x), 0.3), 3)))
    swapped = Feedback(2, 4)
    agree(q.run("fedavg", upload=row[::-1]).w, fedavg(q, lambda i, n, x: swapped(i, n, clipped(rounded(x, 3), 0.3))))


def test_layers_that_are_not_sent_are_neither_chosen_nor_remembered() -> None:
    """PLU without deep layers in rounds 2 and 4: one of two shallow numbers, else two of four."""
    q = make(907)
    steps, shallow, everything = q.steps, np.arange(2), np.arange(4)
    feedback, w, share = Feedback(0, 4), [q.w0], q.samples / q.samples.sum()
    for t in range(q.rounds):
        there = everything if t < 2 or t % 2 else shallow
        feedback.k = len(there) // 2
        moves = [feedback(i, "delta", q.end(i, w[t], steps[t, i]) - w[t], there) for i in range(q.clients)]
        w.append(w[t] + share @ np.array(moves))
    fields = {"algo.P": 2, "algo.D": 1, "algo.tvw": "none", "algo.rce": False}
    everybody = replace(q, cohorts=[list(range(q.clients))] * q.rounds)
    trace = everybody.run("fed2a", deep=2, concurrency=5, buffer=5, upload=[TopK(fraction=0.5)], **fields)
    agree(trace.w, np.array(w))


@pytest.mark.parametrize("loss", [0.0, 0.4])
def test_nothing_that_a_device_learned_is_forgotten_where_uploads_are_lost(loss: float) -> None:
    """With A = 0 a step is lr b whatever the model: the server's way and what one device still holds back are a whole
    number of steps, those of the run that sends everything."""
    b, lr = np.array([[1.0, -2.0, 0.5, 3.0]]), 0.1
    given = {"w0": np.zeros(4), "lr": lr, "rounds": 9, "samples": [5], "steps": 2, "seconds": 1.0}
    given |= {"concurrency": 1, "buffer": 1, "devices": {"loss": loss}}
    q = Problem(np.zeros((1, 4, 4)), b, np.zeros(4), np.array([5]), lr, np.full((9, 1), 2), None)
    plain = q.run("fedavg", **given).w.numpy()
    steps = round(plain[-1, 0] / lr)
    assert (steps > 18) == (loss > 0)
    agree(plain[-1], steps * lr * b[0])
    feedback, way = Feedback(1, 4), q.run("fedavg", upload=[TopK(fraction=0.25)], **given).w.numpy()
    agree(way, np.cumsum([np.zeros(4), *(feedback(0, "delta", jump) for jump in np.diff(plain, axis=0))], 0))
    agree(way[-1] + feedback.left[0, "delta"], plain[-1])


def draw(seed: int = 0) -> Draw:
    rng = np.random.default_rng(seed)
    return Draw(lambda n: torch.from_numpy(rng.random(n)), lambda n: torch.from_numpy(rng.standard_normal(n)))


def test_stochastic_rounding_is_right_in_the_mean_and_never_a_step_off() -> None:
    x, drawn = torch.linspace(-1, 0.7, 23, dtype=torch.float64), draw()
    step = 1 / (2**3 - 1)
    found = torch.stack([Quantise(bits=4).send(x, {}, drawn).values for _ in range(4000)])
    assert ((found - x).abs() < step).all() and ((found / step).round() - found / step).abs().max() < 1e-9
    deviation = step / 2 / np.sqrt(len(found))  # at most
    assert ((found.mean(0) - x).abs() < 5 * deviation).all()


def test_noise_has_the_deviation_noise_times_clip_whatever_the_vector() -> None:
    x, drawn = torch.linspace(-1, 0.7, 100_000, dtype=torch.float64), draw()
    found = Clip_Noise(clip=2.0, noise=1.5).send(x, {}, drawn).values
    noise = (found - 2.0 * x / x.norm()).numpy()
    assert abs(noise.std() / 3.0 - 1) < 0.02 and abs(noise.mean()) < 5 * 3.0 / np.sqrt(len(x))


@pytest.mark.parametrize("row", [[Quantise()], [Clip_Noise(noise=0)], [TopK()], [TopK(), Quantise()]], ids=str)
def test_a_device_that_learned_nothing_sends_zeros(row: list[Transform]) -> None:
    q = make(909)
    still = Problem(0 * q.A, 0 * q.b, q.w0, q.samples, q.lr, q.steps, q.cohorts)
    agree(still.run("fedavg", upload=row).w, np.array([q.w0] * 6))


@pytest.mark.parametrize("n", [1, 2, 3, 10, 4096, 4810, 11_173_962])
@pytest.mark.parametrize("fraction", [0.001, 0.1, 1.0])
def test_bytes_are_the_numbers_their_places_and_the_scale(n: int, fraction: float) -> None:
    k = min(n, max(1, round(fraction * n)))
    places = 0 if k == n else min(n, k * (ceil(log2(n)) if n > 1 else 0))
    assert TopK(fraction=fraction).size(Size(n)).bytes == ceil((32 * k + places) / 8)
    assert Quantise(bits=5).size(TopK(fraction=fraction).size(Size(n))).bytes == ceil((5 * k + places + 32) / 8)
    assert Clip_Noise().size(Size(n)).bytes == 4 * n


def test_of_equal_numbers_the_first_are_sent() -> None:
    x = torch.tensor([1.0, -3, 3, 0, 3, -1, 3])
    sent = TopK(fraction=0.3).send(x, {"residual": torch.zeros(7)}, draw())
    assert sent.kept is not None and sent.kept.tolist() == [1, 2] and sent.values.tolist() == [-3, 3]
    assert sent.memory["residual"].tolist() == [1, 0, 0, 0, 3, -1, 3]

"""FedGH (Yi et al., 2023) on a network small enough to differentiate by hand: numpy alone on this side.

A quadratic has no representations and no labels, so the federation is a classifier, h = tanh(Bx + a) (the body) and
z = Th + c (the header, theta = (T, c)), in float64, through the real loop and engine. Round t, from the paper:

1. Each device drawn joins its own body to the shared header and takes K_i steps of SGD on both, on the mean
   cross-entropy of its batch. With s = softmax(z) - onehot(y) and u = (T's)(1 - h^2), the means over the batch of
   s h', s, u x', u are the gradients of T, c, B, a.
2. With its *trained* body it sends, for each class s that it holds, the mean of h over its samples of s. Its body stays
   with it; its own copy of the header is thrown away.
3. The server takes `steps` steps of size eta_theta down the mean cross-entropy of theta over all pairs
   (representation, class) that came. Pairs are not weighted by samples. A device drawn m times has trained once, and
   its pairs are there m times: the header is part of the model, which counts a device as often as it was drawn.

What is deployed for a device is its body with the new header, also for one that was never drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from algorithms.base import Fed, Schedule
from bench.engine.eager import Eager
from bench.engine.head import HeadFit
from bench.learning.batches import Batch, Batches
from bench.learning.flat import Layout, trainable
from bench.prepare.registry import classes
from bench.simulation.devices import Population
from bench.simulation.loop import FederatedLoop
from bench.simulation.schedule import Rules
from bench.tasks.classification import Classification
from bench.testing import Script

from .problem import COHORTS, STEPS, agree

INPUTS, WIDTH, CLASSES = 3, 4, 3
SAMPLES = [2, 5, 9, 3, 6, 4]  # device 5 is never drawn; device 0 holds one class, 3 two
LR, ETA_THETA, FITS = 0.4, 0.7, 3
Params = tuple[np.ndarray, ...]  # B [h, x], a [h], T [C, h], c [C]


class Net(nn.Module):
    head = "header"

    def __init__(self, params: Params) -> None:
        super().__init__()
        self.body = nn.Linear(INPUTS, WIDTH)
        self.header = nn.Linear(WIDTH, CLASSES)
        for p, value in zip(self.parameters(), params, strict=True):
            p.data = torch.from_numpy(value.copy())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.header(torch.tanh(self.body(x)))
        return logits

    def training_step(self, batch: Batch, batch_idx: int) -> torch.Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1], reduction="none")


class Federation:
    """Data, first model and batches: the givens of both sides."""

    def __init__(self, seed: int, batch_size: int, order: Sequence[int] = range(len(SAMPLES))) -> None:
        """New device j is device order[j] of the table; cohorts name the first new device of each."""
        rng = np.random.default_rng(seed)
        self.x = rng.normal(size=(sum(SAMPLES), INPUTS))
        held = [[1], [0, 1, 2], [0, 1, 2], [0, 2], [0, 1, 2], [1, 2]]
        self.y = np.concatenate([np.resize(classes, n) for classes, n in zip(held, SAMPLES, strict=True)])
        cuts = np.cumsum(SAMPLES)
        mine = [np.arange(end - n, end) for n, end in zip(SAMPLES, cuts, strict=True)]
        self.mine = [mine[i] for i in order]
        self.cohorts = [[list(order).index(i) for i in cohort] for cohort in COHORTS]
        shapes = [(WIDTH, INPUTS), (WIDTH,), (CLASSES, WIDTH), (CLASSES,)]
        self.w0: Params = tuple(0.8 * rng.normal(size=shape) for shape in shapes)
        self.batches = Batches(
            torch.from_numpy(self.x),
            torch.from_numpy(self.y),
            self.mine,
            lambda x: x,
            batch_size=batch_size,
            classes=CLASSES,
            seed=seed,
        )
        self.epochs = np.array([[*row, 1] for row in STEPS])[:, list(order)]

    def loop(self, fields: dict[str, Any], weighting: str, momentum: float, decay: float) -> FederatedLoop:
        module = Net(self.w0)
        layout = Layout(module)
        engine = Eager(module, layout, self.batches)
        clients, rounds = len(self.mine), len(self.cohorts)
        fed = Fed(
            clients=clients,
            cohort=len(self.cohorts[0]),
            rounds=rounds,
            epochs=4,
            lr=LR,
            momentum=momentum,
            decay=decay,
            samples=torch.tensor([len(index) for index in self.mine], dtype=torch.float64),
            layout=layout,
            fit_head=HeadFit(module, layout, Classification()),
        )
        seconds = np.ones((rounds, clients))
        script = Script(
            clients, 0, "with_replacement", Population(), cohorts=self.cohorts, steps=self.epochs, seconds=seconds
        )
        rules = Rules(Schedule(fed.cohort, fed.cohort), rounds=rounds, weighting=weighting)
        return FederatedLoop(
            classes("algo")["fedgh"](**fields), fed, engine, script, rules, layout.flatten(trainable(module))
        )


def softmax_error(h: np.ndarray, y: np.ndarray, T: np.ndarray, c: np.ndarray) -> np.ndarray:
    """[n, C]: softmax(z) - onehot(y)."""
    odds = np.exp(h @ T.T + c)
    return odds / odds.sum(1, keepdims=True) - np.eye(CLASSES)[y]


def gradient(x: np.ndarray, y: np.ndarray, params: Params) -> Params:
    B, a, T, c = params
    h = np.tanh(x @ B.T + a)
    s = softmax_error(h, y, T, c)
    u = (s @ T) * (1 - h**2)
    n = len(y)
    return u.T @ x / n, u.mean(0), s.T @ h / n, s.mean(0)


def train(f: Federation, batches: list[Sequence[int]], start: Params, momentum: float, decay: float) -> Params:
    w, m = start, tuple(np.zeros_like(p) for p in start)
    for index in batches:
        g = gradient(f.x[index], f.y[index], w)
        m = tuple(momentum * b + part + decay * p for b, part, p in zip(m, g, w, strict=True))
        w = tuple(p - LR * b for p, b in zip(w, m, strict=True))
    return w


def derive(
    f: Federation, eta_theta: float, steps: int | None, momentum: float = 0.0, decay: float = 0.0
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """After each round: the header (flat), and for each device its body with that header [N, P]."""
    bodies = [f.w0[:2] for _ in f.mine]
    T, c = f.w0[2:]
    dispatched = [0] * len(f.mine)
    headers, deployed = [], []
    for t, cohort in enumerate(f.cohorts):
        h_pairs: list[np.ndarray] = []
        labels: list[int] = []
        for i in set(cohort):
            epochs = f.batches.epochs(i, dispatched[i], int(f.epochs[t, i]))
            dispatched[i] += 1
            batches = [index.tolist() for epoch in epochs for index in epoch]
            B, a, _, _ = train(f, batches, (*bodies[i], T, c), momentum, decay)
            bodies[i] = (B, a)
            x, y = f.x[f.mine[i]], f.y[f.mine[i]]
            for s in sorted(set(y.tolist())):
                h_pairs += [np.tanh(x[y == s] @ B.T + a).mean(0)] * cohort.count(i)
                labels += [s] * cohort.count(i)
        h, y = np.array(h_pairs), np.array(labels)
        for _ in range(steps or len(y)):
            error = softmax_error(h, y, T, c) / len(y)
            T, c = T - eta_theta * error.T @ h, c - eta_theta * error.sum(0)
        headers.append(np.concatenate([T.ravel(), c]))
        deployed.append(np.array([np.concatenate([B.ravel(), a, headers[-1]]) for B, a in bodies]))
    return headers, deployed


BODY = WIDTH * INPUTS + WIDTH


@pytest.mark.parametrize("batch_size", [100, 2])
@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.5, 0.02)])
@pytest.mark.parametrize("weighting", ["size", "uniform"])
def test_header_bodies_and_deployed_models(batch_size: int, momentum: float, decay: float, weighting: str) -> None:
    """Full batches: an epoch is a step. Batches of two: devices with more samples also take more steps."""
    f = Federation(190, batch_size)
    headers, deployed = derive(f, ETA_THETA, FITS, momentum, decay)
    loop = f.loop({"eta_theta": ETA_THETA, "steps": FITS}, weighting, momentum, decay)
    w0 = loop.server["w"].clone()
    for header, models in zip(headers, deployed, strict=True):
        loop.advance()
        agree(loop.server["w"][BODY:], header)
        assert torch.equal(loop.server["w"][:BODY], w0[:BODY])  # no body ever reaches the server
        agree(loop.memory.rows("w")[:, :BODY], models[:, :BODY])
        agree(loop.deployed(), models)
    assert np.abs(np.diff(headers, axis=0)).min() > 1e-5
    assert np.ptp(deployed[-1][:, :BODY], axis=0).min() > 1e-3  # bodies have gone apart


def test_by_default_the_header_takes_as_many_steps_as_pairs_came_at_the_rate_of_the_run() -> None:
    f = Federation(191, 3)
    headers, deployed = derive(f, LR, None)
    loop = f.loop({}, "size", 0.0, 0.0)
    for header, models in zip(headers, deployed, strict=True):
        loop.advance()
        agree(loop.server["w"][BODY:], header)
        agree(loop.deployed(), models)


def run(f: Federation) -> FederatedLoop:
    loop = f.loop({"eta_theta": ETA_THETA, "steps": FITS}, "size", 0.0, 0.0)
    while not loop.finished:
        loop.advance()
    return loop


def test_identities_do_not_matter() -> None:
    order = [3, 5, 0, 2, 4, 1]
    before, after = run(Federation(192, 100)), run(Federation(192, 100, order))
    agree(after.server["w"], before.server["w"], 1e-12)
    agree(after.deployed(), before.deployed()[order], 1e-12)


def test_drawn_twice_is_two_of_a_kind() -> None:
    """Devices 6 to 11 are twins of 0 to 5. Where one was drawn twice, its twin is drawn beside it, which has to have
    the same body: so it joins in every round in which its like takes part, and everybody is drawn twice."""
    twice, twins = (Federation(193, 100, [*range(6), *range(6)]) for _ in range(2))
    twice.cohorts = [[*cohort, *cohort] for cohort in ([0, 2, 3], [1, 4], [2, 0, 1])]
    twins.cohorts = [[*cohort, *(i + 6 for i in cohort)] for cohort in ([0, 2, 3], [1, 4], [2, 0, 1])]
    one, two = run(twice), run(twins)
    agree(one.server["w"], two.server["w"], 1e-12)
    agree(one.deployed()[:6], two.deployed()[:6], 1e-12)


def test_seeing_every_sample_twice_changes_nothing() -> None:
    """Gradients and representations are means: only the proportions of the classes matter."""
    single, double = Federation(194, 100), Federation(194, 100)
    double.batches.clients = [index.repeat(2) for index in double.batches.clients]
    one, two = run(single), run(double)
    agree(two.deployed(), one.deployed(), 1e-12)

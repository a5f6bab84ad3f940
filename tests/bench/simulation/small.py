"""A federation that can be worked out by hand: with A_i = I a step of device i is w <- w - lr (w - b_i)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from algorithms.base import Algorithm, LocalRule, Schedule, Upload
from bench.testing import quadratic

N = 4
B = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0], [-1.0, 3.0]])
W0 = np.array([0.5, -0.5])
LR = 0.1


def run(algo, clients=N, **keys):
    given = {"w0": W0, "lr": LR, "rounds": 1, "samples": np.arange(clients) + 1, "steps": 1, **keys}
    return quadratic(algo, np.stack([np.eye(2)] * clients), B[:clients], **given)


def step(w, i, steps=1):
    for _ in range(steps):
        w = w - LR * (w - B[i])
    return w


def assert_close(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=0, atol=1e-12)


@dataclass(frozen=True, kw_only=True)
class Post(Algorithm):
    """Asynchronous; every device mails its gradient to the next one and adds up what it reads."""

    unicast: ClassVar[tuple[str, ...]] = ("to",)
    mail: ClassVar[str | None] = "to"

    @property
    def requires(self):
        return frozenset({"mean_gradient"})

    def schedule(self, fed):
        return Schedule(fed.clients, 1)

    def init_server(self, w, fed):
        return {"w": w, "to": torch.eye(fed.clients, dtype=torch.bool).roll(1, 1), "read": torch.zeros(fed.rounds, 2)}

    def extra_up(self, fed):
        return 2

    def local(self, jobs, w, epoch, fed):
        return LocalRule(drift=jobs.mail)

    def upload(self, jobs, trained, fed):
        read = torch.stack([jobs.client.to(jobs.senders.dtype), jobs.senders], 1)
        return Upload(trained.end - jobs.received, extra={"read": read}, gradient=trained.mean_gradient)

    def aggregate(self, server, updates, fed):
        new = updates.extra["read"].to(server["read"].dtype)
        read = torch.cat([server["read"][len(new) :], new])
        return {**super().aggregate(server, updates, fed), "read": read}

"""The test figures of a round: those of the deployed model, and devices' own where a method has such models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from bench.engine.pool import Workers, cut
from bench.learning.evaluate import Evaluate
from bench.simulation.loop import FederatedLoop

WATCHED = 10  # devices whose own models are tested while the run goes on; at its end all are
WORTHWHILE = 2e7  # parameters times test samples from which on several processes are faster (measured: 1.5 times)


class Figures:
    """test_loss and the task's metric, as test_accuracy, and for methods with personal models means of it over devices:
    `personal_own` on the test samples of the classes a device holds, where there are classes, `personal_all` on all,
    `..._tuned` after the method's fine-tuning. Models that are the devices' own have their figures averaged."""

    def __init__(self, loop: FederatedLoop, evaluate: Evaluate, workers: Workers, rng: np.random.Generator) -> None:
        self.loop, self.evaluate, self.workers = loop, evaluate, workers
        self.tuning = loop.algo.personal_rule(loop.fed)
        self.personal = self.tuning is not None or loop.algo.personal != "none"
        self.metric = evaluate.task.metric
        names = ["test_loss", self.metric.column]
        if self.personal:
            suffixes = [""] if self.tuning is None else ["", "_tuned"]
            samples = ("own", "all") if evaluate.task.by_class else ("all",)
            names += [f"personal_{which}{suffix}" for suffix in suffixes for which in samples]
        self.names = tuple(names)
        self.watched = sorted(rng.permutation(loop.fed.clients)[:WATCHED].tolist())

    def __call__(self, everyone: bool) -> dict[str, float]:
        devices = range(self.loop.fed.clients) if everyone else self.watched
        deployed = self.loop.deployed()
        if not self.personal:
            return self._test(deployed if deployed.dim() == 1 or everyone else deployed[list(devices)])
        loss, *values = self._own(devices, deployed)
        own = dict(zip(self.names[2:], values, strict=True))
        if deployed.dim() == 1:
            return self._test(deployed) | own
        return {"test_loss": loss, self.metric.column: own["personal_all"]} | own

    def effort(self, everyone: bool) -> tuple[int, int]:
        """Models that a call tests, and local epochs of fine-tuning it trains."""
        devices = self.loop.fed.clients if everyone else len(self.watched)
        models = devices if self.loop.deployed().dim() == 2 else 1
        tuned, epochs = (0, 0) if self.tuning is None else (devices, devices * self.tuning[1])
        return models + tuned, epochs

    def _test(self, deployed: Tensor) -> dict[str, float]:
        models = deployed.reshape(-1, deployed.shape[-1])
        chunks = self.evaluate.chunks
        pieces = len(models) * chunks
        worthwhile = models.numel() * len(self.evaluate.y) >= WORTHWHILE
        parts = cut([1] * pieces, self.workers.count if worthwhile else 1)
        calls = [(models[first // chunks : -(-last // chunks)], first, last) for first, last in parts]
        sums = torch.cat([part.clone() for part in self.workers.map("test", calls)])
        means = sums.view(len(models), chunks, 2).sum(1) / len(self.evaluate.y)
        loss, value = torch.stack([means[:, 0], self.evaluate.value(means[:, 1])], 1).mean(0).tolist()
        return {"test_loss": loss, self.metric.column: value}

    def _own(self, devices: Sequence[int], deployed: Tensor) -> list[float]:
        """Means over the devices."""
        parts = cut([1] * len(devices), self.workers.count)
        calls = [
            (deployed if deployed.dim() == 1 else deployed[list(devices[a:b])], list(devices[a:b]), self.tuning)
            for a, b in parts
        ]
        found: list[float] = torch.cat([part.clone() for part in self.workers.map("personal", calls)]).mean(0).tolist()
        return found


def after_round(figures: Figures, every: int) -> dict[str, float | None]:
    """Every so many rounds and after the last one; None: not evaluated."""
    if figures.loop.finished or figures.loop.round % every == 0:
        return {**figures(figures.loop.finished)}
    return dict.fromkeys(figures.names)

"""The test figures of a round: those of the deployed model, and devices' own where a method has such models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from bench.evaluate import Evaluate
from bench.loop import FederatedLoop

WATCHED = 10  # devices whose own models are tested while the run goes on; at its end all are


class Figures:
    """test_loss and test_accuracy, and for methods with personal models mean accuracies over devices: `personal_own` on
    the test images of the classes a device holds, `personal_all` on all, `..._tuned` after the method's fine-tuning."""

    def __init__(self, loop: FederatedLoop, evaluate: Evaluate, rng: np.random.Generator) -> None:
        self.loop, self.evaluate = loop, evaluate
        self.rule = loop.algo.personal_rule(loop.fed)
        self.personal = self.rule is not None or loop.algo.personal != "none"
        names = ["test_loss", "test_accuracy"]
        if self.personal:
            suffixes = [""] if self.rule is None else ["", "_tuned"]
            names += [f"personal_{images}{suffix}" for suffix in suffixes for images in ("own", "all")]
        self.names = tuple(names)
        self.watched = sorted(rng.permutation(loop.fed.clients)[:WATCHED].tolist())

    def __call__(self, everyone: bool) -> dict[str, float]:
        devices = range(self.loop.fed.clients) if everyone else self.watched
        deployed = self.loop.deployed()
        one = deployed.dim() == 1
        loss, accuracy = self.evaluate(deployed if one or everyone else deployed[list(devices)])
        figures = {"test_loss": loss, "test_accuracy": accuracy}
        return figures | self._own(devices, deployed) if self.personal else figures

    def effort(self, everyone: bool) -> tuple[int, int]:
        """Models that a call tests, and local epochs of fine-tuning it trains."""
        devices = self.loop.fed.clients if everyone else len(self.watched)
        models = devices if self.loop.deployed().dim() == 2 else 1
        tuned, epochs = (0, 0) if self.rule is None else (devices, devices * self.rule[1])
        return models * (2 if self.personal else 1) + tuned, epochs

    def _own(self, devices: Sequence[int], deployed: Tensor) -> dict[str, float]:
        found: dict[str, list[float]] = {}
        shared = self.evaluate.right(deployed) if deployed.dim() == 1 else None
        for device in devices:
            w = deployed if shared is not None else deployed[device]
            answers = {"": self.evaluate.right(w) if shared is None else shared}
            if self.rule is not None:
                answers["_tuned"] = self.evaluate.right(self.loop.engine.tune(self.loop.fed, w, device, *self.rule))
            own = torch.isin(self.evaluate.y, self.loop.engine.batches.labels(device))
            for suffix, answer in answers.items():
                right = answer.double()
                found.setdefault(f"personal_own{suffix}", []).append(float(right[own].mean()))
                found.setdefault(f"personal_all{suffix}", []).append(float(right.mean()))
        return {name: sum(values) / len(values) for name, values in found.items()}

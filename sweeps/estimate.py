"""How long a sweep will take here, without training: samples to be seen, times what a sample of each model costs.

An estimate, good to a factor of two or three: the costs were measured once on one core of a 2026 server, with the
engine that auto takes where the step costs next to nothing beside its samples and with autograd for the others, and are
scaled by how fast this machine multiplies matrices.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml  # type: ignore[import-untyped]

from bench.prepare.registry import classes
from bench.prepare.resolve import options
from sweeps.plan import PlannedRun, Sweep

# milliseconds of CPU for one training step, and for each sample in it; width 1, the input size of the papers
COSTS = {
    **{"linear": (0.005, 0.001), "mlp": (0.005, 0.016), "mnist_cnn": (0, 0.78), "lenet5": (0, 0.16)},
    **{"lenet5_3x3": (1.2, 0.12), "cifar10_cnn": (3.4, 0.9), "fed2a_cnn": (0, 3.7), "resnet20": (7.7, 3.8)},
    **{"vgg11": (36, 11), "alexnet": (39, 12), "resnet18": (39, 2.7), "googlenet": (54, 2.7)},
    **{"densenet121": (85, 6.3), "vgg16": (0, 500)},
}
PRODUCT = 2.8  # milliseconds of a 512 x 512 product on the machine of COSTS
PER_RUN, PER_ROUND, PER_UPLOAD = 5.0, 0.01, 0.002  # seconds: starting and loading; the loop
ALL_DEVICES = ("fedasync", "afo", "fedlc", "sc_fedlc", "fedlc_t")  # a reporting round is N arrivals
EXTRA_GRADIENTS = {"fedsam": 2.0}


def hours(sweep: Sweep, speed: float) -> float:
    """Of one core."""
    runs = {run.overrides: run for run in sweep.runs}.values()
    return sum(seconds(run) for run in runs) * len(sweep.seeds) * speed / 3600


def seconds(run: PlannedRun) -> float:
    """One run on the machine of COSTS; NaN where nobody timed its model, or its data set does not say its size."""
    words = dict(word.split("=", 1) for word in run.overrides)
    keys = _layers(words["protocol"], words["dataset"], words["scale"]) | words
    model, width = _model(keys)
    step, sample = (width**2 * cost / 1000 for cost in COSTS.get(model, (math.nan, math.nan)))
    train, test = _size(keys) or (math.nan, math.nan)
    if math.isnan(step + train):
        return math.nan
    sample *= (float(keys.get("dataset.resize") or 32) / 32) ** 2
    batch, epochs, rounds = (int(keys[key]) for key in ("batch_size", "epochs", "rounds"))
    steps = epochs if keys.get("local_unit") == "step" else epochs * math.ceil(train / int(keys["clients"]) / batch)
    uploads = int(keys.get("arrivals_per_round") or keys["clients" if words["algo"] in ALL_DEVICES else "cohort"])
    training = uploads * (steps * (step + batch * sample) * EXTRA_GRADIENTS.get(words["algo"], 1.0) + PER_UPLOAD)
    evaluation = test * sample / 3 / int(keys.get("eval_every", 1))
    return PER_RUN + rounds * (training + evaluation + PER_ROUND)


def _size(keys: Mapping[str, Any]) -> tuple[int, int] | None:
    """Training and test samples."""
    given = {key.partition(".")[2]: value for key, value in keys.items() if key.startswith("dataset.")}
    chosen = {key: yaml.safe_load(value) if isinstance(value, str) else value for key, value in given.items()}
    size: tuple[int, int] | None = classes("dataset")[keys["dataset"]](**chosen).size
    return size


def speed() -> float:
    """How much slower this machine is than that of COSTS, from a twentieth of a second of matrix products."""
    import numpy as np
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # scikit-learn brings it

    a = np.ones((512, 512), np.float32)
    times = []
    with threadpool_limits(1):  # on a busy machine a second thread spends its time waiting
        for _ in range(6):
            began = time.process_time()
            for _ in range(3):
                a @ a
            times.append((time.process_time() - began) / 3)
    return 1000 * min(times) / PRODUCT


@cache
def _layers(protocol: str, dataset: str, scale: str) -> dict[str, Any]:
    """The keys of a data set and its protocol, groups as model.width."""
    content = options("protocol")[protocol]
    defaults: Mapping[str, Any] = vars(classes("dataset")[dataset])["defaults"]
    layers = [defaults, content["datasets"][dataset]]
    if scale in ("cpu", "smoke"):
        layers.append(content.get("heavy", {}).get(dataset, {}))
    found: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            found |= {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value}
    return found


def _model(keys: Mapping[str, Any]) -> tuple[str, float]:
    return str(keys.get("model", keys["model.name"])), float(keys.get("model.width", 1.0))

"""How long a sweep will take here, without training: samples to be seen, times what a sample of each model costs.

An estimate, good to a factor of two or three: the costs were measured once on one core of a 2026 server, with the
engine that auto takes where the step costs next to nothing beside its samples and with autograd for the others, and are
scaled by how fast this machine multiplies matrices.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from functools import cache
from typing import Any

from bench.prepare import compose, registry
from bench.simulation import schedule
from sweeps.plan import PlannedRun, Sweep, pairs

# milliseconds of CPU for one training step, and for a million multiplications and additions of its samples' way forward
COSTS = {
    **{"linear": (0.005, 0.13), "mlp": (0.005, 0.05), "mnist_cnn": (0, 0.034), "lenet5": (0, 0.042)},
    **{"lenet5_3x3": (0, 0.08), "cifar10_cnn": (3.4, 0.11), "fed2a_cnn": (0.3, 0.03), "resnet20": (7.7, 0.093)},
    **{"vgg11": (36, 0.072), "alexnet": (39, 0.071), "resnet18": (39, 0.073), "googlenet": (54, 0.06)},
    **{"densenet121": (85, 0.11), "vgg16": (0, 0.079)},
}
PRODUCT = 2.8  # milliseconds of a 512 x 512 product on the machine of COSTS
PER_RUN, PER_ROUND, PER_UPLOAD = 5.0, 0.01, 0.002  # seconds: starting and loading; the loop
COMPOSED = ("protocol", "dataset", "model", "scale", "local_unit", "schedule")  # beside numbers, what a cost depends on


def hours(sweep: Sweep, speed: float) -> float:
    """Of one core."""
    runs = {run.overrides: run for run in sweep.runs}.values()
    return sum(seconds(run) for run in runs) * len(sweep.seeds) * speed / 3600


def seconds(run: PlannedRun) -> float:
    """One run on the machine of COSTS; NaN where nobody timed its model, or its data set does not say its size."""
    given = pairs(run.overrides)
    config = _config(tuple(w for w in run.overrides if w.partition("=")[0].partition(".")[0] in COMPOSED))
    config = config | {key: int(text) for key, text in given.items() if text.isdigit()}
    model, dataset = config["model"], registry.create(config["dataset"])
    if model["name"] not in COSTS or dataset.size is None:
        return math.nan
    side = config["dataset"].get("resize")
    shape = dataset.shape if side is None else (dataset.shape[0], side, side)
    step, per_million = (cost / 1000 for cost in COSTS[model["name"]])
    sample = per_million * _millions(json.dumps(model), shape, dataset.classes)
    train, test = dataset.size
    own = math.ceil(train / config["clients"])  # of a device
    batch, steps = min(config["batch_size"], own), config["epochs"]
    if config["local_unit"] != "step":
        steps *= math.ceil(own / batch)
    uploads = schedule.check(config, registry.classes("algo")[given["algo"]]()).arrivals_per_round or 0
    training = uploads * (steps * (step + batch * sample) + PER_UPLOAD)
    evaluation = test * sample / 3 / config["eval_every"]
    return PER_RUN + float(config["rounds"] * (training + evaluation + PER_ROUND))


@cache
def _millions(model: str, shape: tuple[int, ...], classes: int) -> float:
    """Multiplications and additions of a sample's way forward through the linear and convolutional layers."""
    import torch
    from torch import nn

    from bench.models import NETWORKS

    node, found = json.loads(model), list[int]()

    def count(layer: nn.Module, _: object, result: torch.Tensor) -> None:
        if isinstance(layer, nn.Linear | nn.Conv2d):
            found.append(result[0, :1].numel() * layer.weight.numel())

    with torch.device("meta"), torch.no_grad():
        net = NETWORKS[node["name"]](node, shape, classes).eval()
        for layer in net.modules():
            layer.register_forward_hook(count)
        net(torch.zeros(2, *shape))  # some normalise over what they are given
    return sum(found) / 1e6


@cache
def _config(words: tuple[str, ...]) -> dict[str, Any]:
    """Few of a sweep's runs differ in these words: composing each of its runs would take minutes."""
    return compose.config([*words, f"out={tempfile.gettempdir()}"])  # nothing is written, wherever this is asked


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
